# The manual: heddle.1, and a page for each command, whose options are those that the built command lists. They are made
# where scdoc is installed and programs of the build can run; the archive has their sources alone.
commands = bench bisect certify data devices digest doctor eval export generate get launch models predict report runs \
  summary sweep top topo train tune verify
pages = $(commands:%=docs/heddle-%.1)
EXTRA_DIST += tools/list-options tools/make-page docs/man/heddle.scd $(commands:%=docs/man/%.scd)
CLEANFILES += options.table docs/heddle.1 $(pages)
options.table: heddle$(EXEEXT) $(srcdir)/tools/list-options
	$(AM_V_GEN)$(SHELL) $(srcdir)/tools/list-options ./heddle >$@.tmp && mv $@.tmp $@
if WITH_SCDOC
man_MANS = docs/heddle.1 $(pages)
$(pages) docs/heddle.1: options.table tools/make-page Makefile
	$(AM_V_GEN)$(MKDIR_P) docs && name=$(patsubst heddle-%,%,$(@F:.1=)) && $(SHELL) $(srcdir)/tools/make-page $$name \
	  $(PACKAGE_VERSION) options.table <$(srcdir)/docs/man/$$name.scd >$@.tmp && $(SCDOC) <$@.tmp >$@ && rm $@.tmp
docs/heddle.1: docs/man/heddle.scd
$(pages): docs/heddle-%.1: docs/man/%.scd
endif

# Completions for shells, from the same table.
completions = completions/heddle completions/_heddle completions/heddle.fish
EXTRA_DIST += tools/make-completion
CLEANFILES += $(completions)
if CAN_RUN
bash_completionsdir = $(datadir)/bash-completion/completions
bash_completions_DATA = completions/heddle
zsh_completionsdir = $(datadir)/zsh/site-functions
zsh_completions_DATA = completions/_heddle
fish_completionsdir = $(datadir)/fish/vendor_completions.d
fish_completions_DATA = completions/heddle.fish
completions/heddle: completes = bash
completions/_heddle: completes = zsh
completions/heddle.fish: completes = fish
$(completions): options.table tools/make-completion
	$(AM_V_GEN)$(MKDIR_P) completions && $(SHELL) $(srcdir)/tools/make-completion $(completes) options.table \
	  $(model_files:data/models/%.yaml=%) >$@.tmp && mv $@.tmp $@
endif

EXTRA_DIST += docs/add-a-command.md docs/add-a-data-format.md docs/add-an-op.md docs/add-an-optimizer.md docs/api.md \
  docs/arithmetic.md \
  docs/cluster.md docs/course.md docs/data.md \
  docs/determinism.md docs/export.md docs/from-a-script.md docs/from-keras.md docs/from-pytorch.md \
  docs/from-sklearn.md docs/glossary.md docs/gpu.md \
  docs/how-many-threads.md docs/fine-tune.md docs/mnist.md docs/model-files.md docs/museum.md docs/performance.md \
  docs/porting.md \
  docs/python.md docs/parallelism.md docs/ranks.md docs/reproduce.md docs/rpc.md docs/scaling.md docs/scikit-learn.md \
  docs/security.md \
  docs/step.svg \
  docs/sweep.md docs/text.md docs/tour.md docs/upgrading.md docs/what-others-promise.md
EXTRA_DIST += docs/notebooks/digits.ipynb docs/notebooks/table.ipynb docs/notebooks/threads.ipynb
EXTRA_DIST += docs/notes/convolutions.md docs/notes/linear-layers.md docs/notes/memory-and-compilers.md \
  docs/notes/plans.md docs/notes/tests.md docs/notes/ranks-and-threads.md docs/notes/recipe-cifar.md \
  docs/notes/recipe-mnist-99.md docs/performance/authenticamd-25-1-avx2.md \
  docs/performance/authenticamd-25-17-avx2.md docs/performance/authenticamd-25-17-avx512.md \
  docs/performance/genuineintel-6-167-avx512.md docs/performance/genuineintel-6-207-avx512.md

# The pages and the public headers as a site with a search, in html/.
EXTRA_DIST += docs/site/conf.py docs/site/contents.md docs/site/index.html
html-local:
	@test -n '$(SPHINX)' || { \
	  echo 'make html: expected Sphinx and MyST, found none; run tools/install-deps --yes' >&2; exit 1; }
	$(AM_V_GEN)$(SPHINX) -q -b html -c $(srcdir)/docs/site -d html.trees $(srcdir) html
clean-site:
	rm -rf html html.trees
clean-local: clean-site
.PHONY: clean-site
