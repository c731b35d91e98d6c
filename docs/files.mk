# The manual page is made where scdoc is there, and never shipped: its source is.
EXTRA_DIST += docs/add-an-op.md docs/cluster.md docs/data.md docs/determinism.md docs/from-pytorch.md docs/gpu.md \
  docs/heddle.1.scd docs/model-files.md docs/performance.md docs/ranks.md docs/scaling.md docs/step.svg docs/tour.md
CLEANFILES += docs/heddle.1 docs/heddle.1.tmp
if WITH_SCDOC
man_MANS = docs/heddle.1
docs/heddle.1: docs/heddle.1.scd Makefile
	$(AM_V_GEN)$(MKDIR_P) docs && sed 's/@VERSION@/$(PACKAGE_VERSION)/' $(srcdir)/docs/heddle.1.scd | \
	  $(SCDOC) > $@.tmp && mv $@.tmp $@
endif
