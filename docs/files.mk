# The manual page is made where scdoc is there, and never shipped: its source is.
EXTRA_DIST += docs/add-an-op.md docs/determinism.md docs/gpu.md docs/from-pytorch.md docs/model-files.md docs/performance.md docs/heddle.1.scd
EXTRA_DIST += docs/data.md docs/tour.md docs/step.svg docs/ranks.md docs/cluster.md
CLEANFILES += docs/heddle.1 docs/heddle.1.tmp
if WITH_SCDOC
man_MANS = docs/heddle.1
docs/heddle.1: docs/heddle.1.scd Makefile
	$(AM_V_GEN)$(MKDIR_P) docs && sed 's/@VERSION@/$(PACKAGE_VERSION)/' $(srcdir)/docs/heddle.1.scd | \
	  $(SCDOC) > $@.tmp && mv $@.tmp $@
endif
