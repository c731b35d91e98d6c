# The manual page is built where scdoc is installed. The archive has its source alone.
EXTRA_DIST += docs/add-an-op.md docs/api.md docs/arithmetic.md docs/cluster.md docs/data.md docs/determinism.md docs/export.md \
  docs/from-pytorch.md docs/glossary.md docs/gpu.md docs/heddle.1.scd docs/model-files.md docs/performance.md docs/python.md \
  docs/ranks.md docs/reproduce.md docs/scaling.md docs/security.md docs/step.svg docs/sweep.md docs/tour.md
EXTRA_DIST += docs/notes/convolutions.md docs/notes/linear-layers.md docs/notes/memory-and-compilers.md \
  docs/notes/ranks-and-threads.md docs/notes/recipe-mnist-99.md
CLEANFILES += docs/heddle.1 docs/heddle.1.tmp
if WITH_SCDOC
man_MANS = docs/heddle.1
docs/heddle.1: docs/heddle.1.scd Makefile
	$(AM_V_GEN)$(MKDIR_P) docs && sed 's/@VERSION@/$(PACKAGE_VERSION)/' $(srcdir)/docs/heddle.1.scd | \
	  $(SCDOC) > $@.tmp && mv $@.tmp $@
endif
