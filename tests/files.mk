# Tests. Programs link the whole core statically, so that they reach what users cannot.
TEST_CPPFLAGS = $(AM_CPPFLAGS) $(HAVE_ISA) -I$(top_srcdir)/tests
LOG_COMPILER =
TEST_EXTENSIONS = .sh .bats
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_COMPILER = $(SHELL)
BATS_LOG_DRIVER = $(LOG_DRIVER)
BATS_LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/cli/run-bats
AM_TESTS_ENVIRONMENT = HEDDLE='$(abs_top_builddir)/heddle' SRCDIR='$(abs_top_srcdir)' BUILDDIR='$(abs_top_builddir)' \
  BATS='$(BATS)'; export HEDDLE SRCDIR BUILDDIR BATS; unset OMP_NUM_THREADS HEDDLE_ISA HEDDLE_DATA; \
  HD_BITS='$(HD_BITS)'; export HD_BITS;
EXTRA_DIST += tests/tap.h tests/cli/run-bats

unit_tests = tests/unit/test_tree
op_tests = tests/op/test_kernels tests/op/test_updates tests/op/test_expf
check_PROGRAMS += $(unit_tests) $(op_tests)
script_tests = tests/check-layers.sh tests/check-symbols.sh tests/cli/errors.bats
script_tests += tests/cli/train.bats tests/cli/signals.bats tests/cli/locale.bats tests/cli/manual.bats tests/cli/predict.bats
EXTRA_DIST += tests/cli/cli.bash
bits_tests = tests/bits/bits.sh tests/bits/networks.sh tests/bits/readme.sh
TESTS = $(unit_tests) $(op_tests) $(script_tests) $(bits_tests)
EXTRA_DIST += $(script_tests) $(bits_tests) tests/bits/tiny.yaml tests/bits/groups.yaml

TEST_LIBS = libheddlecore.la
tests_op_test_kernels_SOURCES = tests/op/test_kernels.c tests/op/kernel_case.c tests/op/kernel_case.h
tests_op_test_kernels_CPPFLAGS = $(TEST_CPPFLAGS)
tests_op_test_kernels_LDADD = $(TEST_LIBS)
tests_op_test_updates_SOURCES = tests/op/test_updates.c tests/op/kernel_case.c tests/op/kernel_case.h
tests_op_test_updates_CPPFLAGS = $(TEST_CPPFLAGS)
tests_op_test_updates_LDADD = $(TEST_LIBS)
tests_op_test_expf_SOURCES = tests/op/test_expf.c
tests_op_test_expf_CPPFLAGS = $(TEST_CPPFLAGS)
tests_op_test_expf_LDADD = $(TEST_LIBS)
tests_unit_test_tree_SOURCES = tests/unit/test_tree.c
tests_unit_test_tree_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_tree_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_idx
tests_unit_test_idx_SOURCES = tests/unit/test_idx.c tests/scratch.h
tests_unit_test_idx_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_idx_LDADD = $(TEST_LIBS)
op_tests += tests/op/test_gradients
tests_op_test_gradients_SOURCES = tests/op/test_gradients.c tests/op/kinks.c tests/op/kinks.h tests/op/kernel_case.c \
  tests/op/kernel_case.h
tests_op_test_gradients_CPPFLAGS = $(TEST_CPPFLAGS)
tests_op_test_gradients_LDADD = $(TEST_LIBS)

unit_tests += tests/golden/test_golden
tests_golden_test_golden_SOURCES = tests/golden/test_golden.c
tests_golden_test_golden_CPPFLAGS = $(TEST_CPPFLAGS)
tests_golden_test_golden_LDADD = $(TEST_LIBS)

unit_tests += tests/fault/test_alloc
tests_fault_test_alloc_SOURCES = tests/fault/test_alloc.c tests/scratch.h
tests_fault_test_alloc_CPPFLAGS = $(TEST_CPPFLAGS)
tests_fault_test_alloc_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/bits/make_idx
tests_bits_make_idx_SOURCES = tests/bits/make_idx.c
tests_bits_make_idx_CPPFLAGS = $(TEST_CPPFLAGS)
tests_bits_make_idx_LDADD = $(TEST_LIBS)

# Every combination of settings, a kill and a resume for each.
check-bits:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(bits_tests)' HD_BITS=all
.PHONY: check-bits
op_tests += tests/op/test_network_gradients
tests_op_test_network_gradients_SOURCES = tests/op/test_network_gradients.c tests/op/kinks.c tests/op/kinks.h \
  tests/op/kernel_case.c tests/op/kernel_case.h
tests_op_test_network_gradients_CPPFLAGS = $(TEST_CPPFLAGS)
tests_op_test_network_gradients_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_digits
tests_unit_test_digits_SOURCES = tests/unit/test_digits.c tests/scratch.h
tests_unit_test_digits_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_digits_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_yaml
tests_unit_test_yaml_SOURCES = tests/unit/test_yaml.c tests/scratch.h
tests_unit_test_yaml_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_yaml_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_safetensors
tests_unit_test_safetensors_SOURCES = tests/unit/test_safetensors.c tests/scratch.h
tests_unit_test_safetensors_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_safetensors_LDADD = $(TEST_LIBS)
unit_tests += tests/plan/test_plan
tests_plan_test_plan_SOURCES = tests/plan/test_plan.c tests/plan/bad_models.c tests/plan/bad_models.h \
  tests/plan/plan_memory.c tests/plan/plan_memory.h
tests_plan_test_plan_CPPFLAGS = $(TEST_CPPFLAGS)
tests_plan_test_plan_LDADD = $(TEST_LIBS)
EXTRA_DIST += tests/plan/doubled.yaml tests/plan/flat_branches.yaml tests/plan/doubled.plan tests/plan/flat_branches.plan
EXTRA_DIST += tests/plan/batch_norm.yaml tests/plan/batch_norm.plan tests/bits/norm.yaml tests/bits/shard_norm.yaml \
  tests/plan/shard_norm.yaml tests/plan/shard_norm.plan
EXTRA_DIST += tests/plan/branches.yaml tests/plan/no_pool.yaml tests/plan/own_pool.yaml tests/plan/pool_first.yaml \
  tests/plan/read_often.yaml tests/plan/scores_as_image.yaml tests/plan/branches.plan tests/plan/no_pool.plan \
  tests/plan/own_pool.plan tests/plan/pool_first.plan tests/plan/read_often.plan tests/plan/scores_as_image.plan \
  tests/plan/cnn.plan tests/plan/fastmnist.plan tests/plan/mlp.plan tests/plan/simplenet.plan \
  tests/plan/lenet5.plan tests/plan/repeats.yaml tests/plan/repeats.plan
unit_tests += tests/unit/test_file
tests_unit_test_file_SOURCES = tests/unit/test_file.c tests/scratch.h
tests_unit_test_file_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_file_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_meeting
tests_unit_test_meeting_SOURCES = tests/unit/test_meeting.c tests/scratch.h
tests_unit_test_meeting_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_meeting_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_budget
tests_unit_test_budget_SOURCES = tests/unit/test_budget.c tests/scratch.h
tests_unit_test_budget_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_budget_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_predict
tests_unit_test_predict_SOURCES = tests/unit/test_predict.c tests/scratch.h
tests_unit_test_predict_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_predict_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_schedule
tests_unit_test_schedule_SOURCES = tests/unit/test_schedule.c
tests_unit_test_schedule_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_schedule_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_feed
tests_unit_test_feed_SOURCES = tests/unit/test_feed.c
tests_unit_test_feed_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_feed_LDADD = $(TEST_LIBS)
unit_tests += tests/unit/test_summary
tests_unit_test_summary_SOURCES = tests/unit/test_summary.c tests/scratch.h
tests_unit_test_summary_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_summary_LDADD = $(TEST_LIBS)
script_tests += tests/cli/summary.bats
unit_tests += tests/unit/test_tensor
tests_unit_test_tensor_SOURCES = tests/unit/test_tensor.c
tests_unit_test_tensor_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_test_tensor_LDADD = $(TEST_LIBS)
script_tests += tests/tensors.sh
