# The Python package. make python builds a wheel in python/dist that carries the library and what it links, by
# setuptools, auditwheel and patchelf. make python-stage makes the package alone, in python/stage.
PYTHON = python3
python_modules = python/heddle/__init__.py python/heddle/_arrays.py python/heddle/_library.py python/heddle/data.py \
  python/heddle/_torch_checks.py python/heddle/model.py python/heddle/pytorch.py python/heddle/report.py \
  python/heddle/run.py python/heddle/session.py python/heddle/sklearn.py
EXTRA_DIST += python/make_ffi.py python/setup.py $(python_modules) python/heddle/py.typed

python-stage:
	$(AM_V_GEN)rm -rf python/stage && $(MKDIR_P) python/stage/heddle && \
	  for each in $(python_modules) python/heddle/py.typed; do cp $(srcdir)/$$each python/stage/heddle/; done && \
	  $(PYTHON) $(srcdir)/python/make_ffi.py $(top_srcdir)/include python/stage/heddle/_ffi.py '$(CC)'

python: python-stage libheddle.la
	rm -rf python/dist python/stage/dist && $(MKDIR_P) python/dist
	cp .libs/libheddle.so python/stage/heddle/ && $(STRIP) --strip-unneeded python/stage/heddle/libheddle.so
	cp $(srcdir)/python/setup.py python/stage/ && cd python/stage && \
	  HEDDLE_VERSION='$(PACKAGE_VERSION)' $(PYTHON) setup.py -q bdist_wheel
	$(PYTHON) -m auditwheel repair -w python/dist python/stage/dist/*.whl
	@ls python/dist/*.whl
.PHONY: python python-stage
clean-python:
	rm -rf python/stage python/dist
clean-local: clean-python
.PHONY: clean-python
EXTRA_DIST += tests/python/tap.py tests/python/run_tests.py tests/python/data_tests.py tests/python/error_tests.py \
  tests/python/stop_tests.py tests/python/fork_tests.py tests/python/doc_tests.py \
  tests/python/sklearn_tests.py tests/python/torch_tests.py
