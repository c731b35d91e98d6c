# Programs as users write them: C99, the public headers, the shared library. `make check` builds and runs them.
examples = examples/train_cnn examples/own_loop examples/own_network examples/own_op examples/inference examples/set_seed examples/tensors
check_PROGRAMS += $(examples)
EXAMPLE_CPPFLAGS = -I$(top_srcdir)/include
EXAMPLE_CFLAGS = -std=c99 -pedantic -Wall -Wextra -Wshadow -Wstrict-prototypes $(SANITIZE)
examples_train_cnn_CPPFLAGS = $(EXAMPLE_CPPFLAGS)
examples_train_cnn_CFLAGS = $(EXAMPLE_CFLAGS)
examples_train_cnn_LDADD = libheddle.la
examples_own_loop_CPPFLAGS = $(EXAMPLE_CPPFLAGS)
examples_own_loop_CFLAGS = $(EXAMPLE_CFLAGS)
examples_own_loop_LDADD = libheddle.la
examples_own_network_CPPFLAGS = $(EXAMPLE_CPPFLAGS)
examples_own_network_CFLAGS = $(EXAMPLE_CFLAGS)
examples_own_network_LDADD = libheddle.la
examples_own_op_CPPFLAGS = $(EXAMPLE_CPPFLAGS)
examples_own_op_CFLAGS = $(EXAMPLE_CFLAGS)
examples_own_op_LDADD = libheddle.la
examples_inference_CPPFLAGS = $(EXAMPLE_CPPFLAGS)
examples_inference_CFLAGS = $(EXAMPLE_CFLAGS)
examples_inference_LDADD = libheddle.la
examples_set_seed_CPPFLAGS = $(EXAMPLE_CPPFLAGS)
examples_set_seed_CFLAGS = $(EXAMPLE_CFLAGS)
examples_set_seed_LDADD = libheddle.la
examples_tensors_CPPFLAGS = $(EXAMPLE_CPPFLAGS)
examples_tensors_CFLAGS = $(EXAMPLE_CFLAGS)
examples_tensors_LDADD = libheddle.la
script_tests += tests/examples.sh tests/valgrind.sh
EXTRA_DIST += tests/examples_lib.sh examples/tensors.txt
