# Programs as users write them: C99, the public headers, the shared library. `make check` builds and runs them.
examples = examples/train_cnn examples/own_loop examples/own_network examples/custom_op examples/own_data \
  examples/inference examples/generate examples/set_seed examples/tensors examples/squares examples/files \
  examples/batches \
  examples/allreduce examples/parameter_server examples/ddp examples/devices
EXAMPLE_CFLAGS = -std=c99 -pedantic -Wall -Wextra -Wshadow -Wstrict-prototypes -I$(top_srcdir)/include
$(examples): $(examples:%=%.c) libheddle.la
	$(AM_V_CCLD)$(MKDIR_P) examples && $(LIBTOOL) $(AM_V_lt) --tag=CC --mode=link $(CC) $(EXAMPLE_CFLAGS) $(CFLAGS) \
	  $(SANITIZE) -o $@ $(srcdir)/$@.c libheddle.la
check_SCRIPTS += $(examples)
script_tests += tests/examples.sh
rare_tests += tests/valgrind.sh
EXTRA_DIST += $(examples:%=%.c) tests/examples_lib.sh examples/tensors.txt examples/pictures.yaml \
  examples/train.py examples/optuna_search.py
CLEANFILES += $(examples)
clean-examples:
	rm -rf examples/.libs
clean-local: clean-examples
.PHONY: clean-examples
