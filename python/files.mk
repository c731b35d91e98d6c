# The Python package. make python-stage makes the package alone, in python/stage; make python-program adds the library
# and the program; make python builds of that a wheel in python/dist that also carries what they link, by setuptools,
# auditwheel and patchelf; make python-aarch64 one for aarch64 on another machine.
PYTHON = python3
python_modules = python/heddle/__init__.py python/heddle/__main__.py python/heddle/_arrays.py \
  python/heddle/_binding.py python/heddle/_interrupt.py python/heddle/_library.py python/heddle/_losses.py \
  python/heddle/_options.py python/heddle/_program.py python/heddle/_summary.py python/heddle/_sweep.py \
  python/heddle/_torch_checks.py python/heddle/_torch_composed.py python/heddle/_torch_places.py \
  python/heddle/_watch.py python/heddle/data.py python/heddle/evidence.py \
  python/heddle/machine.py python/heddle/model.py python/heddle/pytorch.py python/heddle/report.py \
  python/heddle/run.py python/heddle/session.py python/heddle/sklearn.py
EXTRA_DIST += pyproject.toml python/build_backend.py python/make_ffi.py python/make_types.py python/make_wheel.py \
  python/setup.py python/scripts/heddle $(python_modules) python/heddle/py.typed

# Types of the options are the library's own words, where it was built as a shared one. One that was built for another
# machine cannot say them here: TYPES_LIBRARY names one of the same version that can.
TYPES_LIBRARY = .libs/libheddle.so
python-stage:
	$(AM_V_GEN)rm -rf python/stage && $(MKDIR_P) python/stage/heddle && \
	  for each in $(python_modules) python/heddle/py.typed; do cp $(srcdir)/$$each python/stage/heddle/; done && \
	  cp $(srcdir)/python/setup.py python/stage/ && \
	  echo '$(PACKAGE_VERSION)' >python/version && cp python/version python/stage/ && \
	  $(PYTHON) $(srcdir)/python/make_ffi.py $(top_srcdir)/include python/stage/heddle/_ffi.py '$(CC)' && \
	  { test ! -f $(TYPES_LIBRARY) || HEDDLE_LIBRARY=$(TYPES_LIBRARY) \
	    $(PYTHON) $(srcdir)/python/make_types.py python/stage; }

# The libraries and the program find each other by their places in the package, and nothing of this build folder.
stage_library = python/stage/heddle/libheddle.so.0
stage_tools = python/stage/heddle/libheddle-tools.so.0
# Modules for GPUs and for several hosts belong to an installation, which the wheel is not.
stage_formats = $(shell echo '$(BUILT_WITH)' | sed 's/, /\n/g' | grep -E 'files|pictures' | paste -sd, | sed 's/,/, /g')
stage_lacks = $(shell echo '$(LEFT_OUT)' | sed 's/, /\n/g' | grep -E 'files|pictures' | sed 's/$$/,/') \
  NVIDIA GPUs (an installation), runs over several hosts (an installation)
stage_link = $(CC) $(OPENMP_CFLAGS) $(CFLAGS) $(LDFLAGS) -Wl,--as-needed
python-program: libheddle.la libtoolscore.la libheddle-tools.la heddle$(EXEEXT)
	$(MAKE) $(AM_MAKEFLAGS) python-stage
	$(MKDIR_P) python/stage/heddle/bin python/stage/scripts
	cp .libs/libheddle.so $(stage_library)
	$(stage_link) -shared -Wl,-soname,libheddle-tools.so.0 -Wl,-rpath,'$$ORIGIN' -o $(stage_tools) \
	  -Wl,--whole-archive .libs/libtoolscore.a -Wl,--no-whole-archive $(stage_library) $(LIBS)
	$(CC) $(DEFS) $(DEFAULT_INCLUDES) -D_GNU_SOURCE -I$(top_srcdir)/src -I$(top_srcdir)/include \
	  -DBUILT_WITH='"$(stage_formats)"' -DLEFT_OUT='"$(strip $(stage_lacks))"' $(AM_CFLAGS) $(CFLAGS) \
	  -c $(srcdir)/src/cli/main.c -o python/stage/main.o
	$(stage_link) -Wl,-rpath,'$$ORIGIN/..' -o python/stage/heddle/bin/heddle python/stage/main.o \
	  $(filter-out src/cli/heddle-main.$(OBJEXT),$(heddle_OBJECTS)) $(stage_tools) $(stage_library) $(LIBS)
	$(STRIP) --strip-unneeded $(stage_library) $(stage_tools) python/stage/heddle/bin/heddle
	cp $(srcdir)/python/scripts/heddle python/stage/scripts/

python:
	@$(PYTHON) $(srcdir)/python/make_wheel.py --check
	$(MAKE) $(AM_MAKEFLAGS) python-program
	@$(PYTHON) $(srcdir)/python/make_wheel.py python/stage python/dist '$(stage_formats)' '$(strip $(stage_lacks))'

# The wheel for aarch64, by a cross compiler, tried under qemu.
python-aarch64: libheddle.la heddle$(EXEEXT)
	+PYTHON='$(PYTHON)' $(SHELL) $(srcdir)/tools/aarch64-wheel aarch64
.PHONY: python python-aarch64 python-program python-stage
EXTRA_DIST += tools/aarch64-wheel
clean-python:
	rm -rf python/stage python/dist python/version
clean-local: clean-python
.PHONY: clean-python
EXTRA_DIST += tests/python/tap.py tests/python/run_tests.py tests/python/data_tests.py tests/python/error_tests.py \
  tests/python/stop_tests.py tests/python/fork_tests.py tests/python/doc_tests.py tests/python/option_tests.py \
  tests/python/evidence_tests.py tests/python/program_tests.py tests/python/weight_tests.py tests/python/loss_tests.py \
  tests/python/mask_tests.py tests/python/heads_tests.py tests/python/watch_tests.py tests/python/lr_tests.py \
  tests/python/notebook_tests.py \
  tests/python/mlp_suite_tests.py tests/python/sklearn_tests.py tests/python/mlp_tests.py tests/python/torch_tests.py \
  tests/python/gpt_tests.py tests/python/encoder_tests.py tests/python/recurrent_tests.py
