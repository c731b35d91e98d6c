# Tests. Programs link the whole core statically, so that they reach what users cannot. A program whose only source is
# NAME.c needs no more than its name in a list.
LOG_COMPILER =
TEST_EXTENSIONS = .sh .bats
LOG_DRIVER = $(SHELL) $(top_srcdir)/tests/timed-driver env AM_TAP_AWK='$(AWK)' $(SHELL) \
  $(top_srcdir)/build-aux/tap-driver.sh
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_COMPILER = $(SHELL)
BATS_LOG_DRIVER = $(LOG_DRIVER)
BATS_LOG_COMPILER = $(SHELL) $(top_srcdir)/tests/cli/run-bats
# Lists in make's own variables would take stack, which some tests limit.
AM_TESTS_ENVIRONMENT = HEDDLE='$(abs_top_builddir)/tests/heddle' SRCDIR='$(abs_top_srcdir)' \
  BUILDDIR='$(abs_top_builddir)' \
  BATS='$(BATS)'; export HEDDLE SRCDIR BUILDDIR BATS; \
  unset OMP_NUM_THREADS HEDDLE_ISA HEDDLE_DATA HEDDLE_SYSROOT HEDDLE_HOST_ID HEDDLE_THREAD_SPEEDS HEDDLE_HOST_SUMS \
  HEDDLE_CUDA_DRIVER HEDDLE_CUDA_MODULE; \
  unset MAKEFLAGS MFLAGS MAKEOVERRIDES TESTS TEST_LOGS; \
  HEDDLE_PLAN=check; export HEDDLE_PLAN; \
  HD_DEPTH='$(HD_DEPTH)'; export HD_DEPTH;

# The command of this build, without libtool's script in front of it, which takes longer than most commands.
check_SCRIPTS += tests/heddle
CLEANFILES += tests/heddle
tests/heddle: heddle$(EXEEXT)
	$(AM_V_GEN){ echo '#!/bin/sh'; if test -f .libs/heddle; then \
	  echo 'LD_LIBRARY_PATH=$(abs_top_builddir)/.libs$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH}'; \
	  echo 'export LD_LIBRARY_PATH'; echo 'exec "$(abs_top_builddir)/.libs/heddle" "$$@"'; \
	  else echo 'exec "$(abs_top_builddir)/heddle" "$$@"'; fi; } >$@ && chmod +x $@

unit_tests = tests/unit/test_bench tests/unit/test_digits tests/unit/test_doctor tests/unit/test_feed \
  tests/unit/test_file tests/unit/test_hdmath tests/unit/test_idx tests/unit/test_losses tests/unit/test_barrier \
  tests/unit/test_barrier_lines tests/unit/test_caches tests/unit/test_owed_evaluation \
  tests/unit/test_arithmetic_version \
  tests/unit/test_num_threads tests/unit/test_optimizers tests/unit/test_param_rules tests/unit/test_placement \
  tests/unit/test_pool \
  tests/unit/test_predict tests/unit/test_quota tests/unit/test_loader \
  tests/unit/test_batch_ring tests/unit/test_sampler tests/unit/test_safetensors tests/unit/test_scaling \
  tests/unit/test_schedule tests/unit/test_settings tests/unit/test_setup tests/unit/test_summary \
  tests/unit/test_tensor \
  tests/unit/test_reduction_tree tests/unit/test_yaml
unit_tests += tests/unit/test_threads tests/unit/test_fork tests/unit/test_openmp tests/unit/test_quiet_steps \
  tests/unit/test_refused tests/unit/test_no_pidfd
unit_tests += tests/unit/test_jobs tests/unit/test_nvml tests/unit/test_top_screen tests/unit/test_use \
  tests/unit/test_utf8 tests/unit/test_json_text tests/unit/test_cpu_load tests/unit/test_onnx tests/unit/test_nearest \
  tests/unit/test_tune_text tests/unit/test_wrong
unit_tests += tests/unit/test_neighbours tests/unit/test_fault tests/unit/test_environment tests/unit/test_stop \
  tests/unit/test_leftovers
unit_tests += tests/plan/test_plan tests/plan/test_networks
unit_tests += tests/fault/test_alloc tests/fault/test_forgery tests/fault/test_bisect
unit_tests += tests/unit/test_sessions tests/unit/test_shared_sessions tests/unit/test_step_counts \
  tests/unit/test_custom_op tests/unit/test_device
unit_tests += tests/unit/test_tables tests/unit/test_rows tests/unit/test_model_words
unit_tests += tests/unit/test_profile tests/unit/test_formats tests/unit/test_pictures tests/unit/test_csv \
  tests/unit/test_custom_data tests/unit/test_custom_loss tests/unit/test_tokens tests/unit/test_generate
unit_tests += tests/unit/test_transform tests/unit/test_augment tests/unit/test_first_weights tests/unit/test_skip \
  tests/unit/test_rendezvous tests/unit/test_local_group tests/unit/test_group tests/unit/test_rpc tests/unit/test_hosts
unit_tests += tests/fuzz/test_fuzz
op_tests = tests/op/test_array tests/op/test_expf tests/op/test_gemm tests/op/test_gradients \
  tests/op/test_network_gradients tests/op/test_updates
op_tests += tests/op/test_bf16
cli_tests = tests/cli/ranks.bats tests/cli/sweep.bats tests/cli/train.bats tests/cli/errors.bats \
  tests/cli/export.bats tests/cli/tutorials.bats tests/cli/files.bats tests/cli/evidence.bats tests/cli/tables.bats \
  tests/cli/weights.bats tests/cli/fine_tune.bats \
  tests/cli/signals.bats tests/cli/data.bats tests/cli/predict.bats tests/cli/losses.bats tests/cli/top.bats \
  tests/cli/loader.bats tests/cli/model_words.bats tests/cli/models.bats tests/cli/masks.bats tests/cli/older.bats \
  tests/cli/manual.bats tests/cli/stages.bats \
  tests/cli/topo.bats tests/cli/get-mnist.bats tests/cli/profile.bats tests/cli/metric.bats tests/cli/tta.bats \
  tests/cli/report.bats tests/neighbours.sh tests/cli/bisect.bats tests/cli/completion.bats tests/cli/locale.bats \
  tests/cli/tokens.bats tests/cli/text_export.bats tests/cli/transforms.bats tests/cli/summary.bats tests/cli/rpc.bats
script_tests = tests/python/python.sh tests/museum/museum.sh tests/quickstart.sh tests/fault/kill-everywhere.sh \
  tests/check-abi.sh tests/check-symbols.sh tests/check-layers.sh tests/op-tables.sh tests/check-links.sh \
  tests/check-columns.sh tests/house.sh tests/model-files.sh tests/check-words.sh tests/tap-total.sh tests/tensors.sh
# What trains or compares for long, or runs a GPU's kernels on a stub. Sanitizers leave it out: kernels are
# given memory that ends at the end of a page anyway.
slow_programs = tests/op/test_kernels tests/golden/test_golden tests/cuda/test_gpu_gradients tests/cuda/test_gpus
bits_tests = tests/bits/bits.sh tests/bits/transforms.sh tests/bits/stages.sh \
  tests/bits/networks.sh tests/bits/pictures.sh tests/bits/formats.sh tests/bits/bf16.sh tests/bits/certificate.sh \
  tests/bits/fine_tune.sh
# What make check leaves to make check-all: a GPU's stand-in, hosts over MPI, large networks, builds and
# installations of
# their own, full disks, what measures the machine, long pages, and what needs tools that few have.
gpu_bits = tests/bits/gpu_digests.sh tests/bits/gpu_native.sh tests/bits/gpus_digests.sh
host_bits = tests/bits/hosts.sh tests/bits/stage_hosts.sh
large_bits = tests/bits/readme.sh tests/bits/native.sh tests/bits/recipes.sh
rare_tests = tests/add-an-op.sh $(gpu_bits) tests/cli/bench.bats $(host_bits) $(large_bits) tests/cli/mpi.bats \
  tests/cli/device.bats tests/cli/gpus.bats tests/cli/gpu_sums.bats tests/cli/tune.bats tests/cli/text.bats \
  tests/install.sh tests/install-local.sh tests/older-headers.sh tests/python/wheel.sh tests/cli/nccl.bats \
  tests/gpu-report.sh tests/cuda/ptx.sh tests/cuda/resources.sh tests/cuda/sanitizer.sh tests/cli/doctor.bats \
  tests/cli/from-pytorch.bats tests/cli/hostile.sh tests/systems.sh tests/instructions.sh tests/dist.sh \
  tests/cli/bad_disk.sh tests/onnx.sh tests/site.sh
# The longest first: what begins last ends last.
TESTS = $(bits_tests) $(slow_programs) $(cli_tests) $(script_tests) $(op_tests) $(unit_tests)
# Alone, after all others: libtool links libraries again to install them, and moves those of the build away meanwhile.
tests/install.log: $(filter-out tests/install.log tests/install-local.log,$(TEST_LOGS))
tests/install-local.log: $(filter-out tests/install-local.log,$(TEST_LOGS))

# Programs that scripts call.
script_programs = tests/bits/make_data tests/bits/make_idx tests/cli/on_terminal tests/cli/group_calls \
  tests/cli/json_get tests/cli/rpc_calls tests/fault/kill_at tests/cli/host_steps tests/cli/bad_server \
  tests/golden/print_scores tests/onnx/read_scores tests/cli/stranger tests/cli/without
check_PROGRAMS += $(slow_programs) $(unit_tests) $(op_tests) $(script_programs)
EXTRA_DIST += tests/unit/stranger.h tests/cli/exported.c tests/onnx/runtime_rows.py tests/onnx/runtime_scores.py \
  tests/onnx/runtime_tokens.py tests/onnx/runtime_same.py tests/onnx/runtime_lookalikes.py \
  tests/onnx/runtime_drawn.py \
  tests/onnx/trained_same.py tests/onnx/runtime_sklearn.py
EXTRA_DIST += tests/museum/museum_files.py tests/museum/museum_heddle.py tests/museum/museum_table.py \
  tests/museum/rows_arrays.py tests/museum/rows_csv.py tests/museum/rows_pictures.py tests/museum/rows_runs.py \
  tests/museum/reports.txt tests/museum/try_heddle.py
EXTRA_DIST += $(cli_tests) $(script_tests) $(bits_tests) $(rare_tests) tests/mpi_lib.sh tests/bits/experiments.sh \
  tests/bits/hosts_lib.sh \
  tests/tap.h tests/tap.sh tests/timed-driver tests/comma.locale \
  tests/scratch.h tests/refused_calls.h tests/unit/rank_scene.h tests/cli/run-bats tests/cli/cli.bash \
  tests/cli/mpi.bash tests/cli/ranks.bash tests/unit/made_up_files.h tests/golden/networks.json

# Programs of several files.
kernel_case = tests/op/kernel_case.c tests/op/kernel_case.h tests/op/guarded.c tests/op/guarded.h
kinks = tests/op/kinks.c tests/op/kinks.h
cuda_table = tests/cuda/cuda_table.c tests/cuda/cuda_table.h
tests_cuda_test_gpus_SOURCES = tests/cuda/test_gpus.c
tests_cuda_test_gpu_gradients_SOURCES = tests/cuda/test_gpu_gradients.c tests/op/guarded.c tests/op/guarded.h \
  $(cuda_table)
tests_golden_test_golden_SOURCES = tests/golden/test_golden.c tests/op/guarded.c tests/op/guarded.h $(cuda_table)
tests_op_test_kernels_SOURCES = tests/op/test_kernels.c $(kernel_case) $(cuda_table)
tests_unit_test_device_SOURCES = tests/unit/test_device.c tests/op/guarded.c tests/op/guarded.h $(cuda_table)
tests_op_test_array_SOURCES = tests/op/test_array.c $(kernel_case)
tests_op_test_gemm_SOURCES = tests/op/test_gemm.c $(kernel_case)
tests_op_test_bf16_SOURCES = tests/op/test_bf16.c $(kernel_case)
tests_op_test_updates_SOURCES = tests/op/test_updates.c $(kernel_case)
tests_op_test_gradients_SOURCES = tests/op/test_gradients.c $(kernel_case) $(kinks)
tests_op_test_network_gradients_SOURCES = tests/op/test_network_gradients.c $(kernel_case) $(kinks)
tests_plan_test_plan_SOURCES = tests/plan/test_plan.c tests/plan/bad_models.c tests/plan/bad_models.h
tests_plan_test_networks_SOURCES = tests/plan/test_networks.c tests/plan/drawn_network.c tests/plan/drawn_network.h

tests_unit_test_caches_SOURCES = tests/unit/test_caches.c tests/unit/other_cpus.h
tests_unit_test_threads_SOURCES = tests/unit/test_threads.c tests/unit/other_cpus.h
# It counts comparisons.
tests_unit_test_onnx_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=strcmp
tests_unit_test_openmp_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
tests_unit_test_csv_SOURCES = tests/unit/test_csv.c tests/unit/data_trial.h tests/unit/comma_locale.h
tests_unit_test_rows_SOURCES = tests/unit/test_rows.c
tests_unit_test_tables_SOURCES = tests/unit/test_tables.c tests/unit/data_trial.h
tests_unit_test_model_words_SOURCES = tests/unit/test_model_words.c
tests_unit_test_yaml_SOURCES = tests/unit/test_yaml.c tests/unit/comma_locale.h
tests_unit_test_pictures_SOURCES = tests/unit/test_pictures.c tests/unit/data_trial.h
tests_unit_test_tokens_SOURCES = tests/unit/test_tokens.c tests/unit/data_trial.h tests/unit/format_files.h
tests_unit_test_formats_SOURCES = tests/unit/test_formats.c tests/unit/data_trial.h tests/unit/format_files.h
tests_unit_test_tune_text_SOURCES = tests/unit/test_tune_text.c src/cli/tune_page.c src/cli/page.c src/cli/svg.c \
  src/cli/cli.c src/cli/wrapped_text.c
nodist_tests_unit_test_tune_text_SOURCES = embed_pages.c
tests_unit_test_top_screen_SOURCES = tests/unit/test_top_screen.c src/cli/top_screen.c src/cli/machine_text.c \
  src/cli/topo.c src/cli/cli.c src/cli/wrapped_text.c

tests_unit_test_stop_SOURCES = tests/unit/test_stop.c src/cli/cmd_launch.c src/cli/cmd_report.c src/cli/report.c \
  src/cli/report_page.c src/cli/report_texts.c src/cli/report_figures.c src/cli/page.c src/cli/svg.c src/cli/cli.c \
  src/cli/save_file.c src/cli/wrapped_text.c
nodist_tests_unit_test_stop_SOURCES = embed_pages.c

tests_unit_test_transform_SOURCES = tests/unit/test_transform.c tests/unit/transform_digests.h \
  tests/unit/transform_refused.h

# Stubs of NVIDIA's library: a whole one, one with what is needed and no more, one without even that.
check_LTLIBRARIES += tests/unit/nvml_stub.la tests/unit/nvml_bare.la tests/unit/nvml_useless.la
stub_flags = -module -avoid-version -shared -rpath $(abs_builddir)
tests_unit_nvml_stub_la_SOURCES = tests/unit/nvml_stub.c
tests_unit_nvml_stub_la_LDFLAGS = $(stub_flags)
tests_unit_nvml_bare_la_SOURCES = tests/unit/nvml_stub.c
tests_unit_nvml_bare_la_CPPFLAGS = -DNVML_STUB_BARE
tests_unit_nvml_bare_la_LDFLAGS = $(stub_flags)
tests_unit_nvml_useless_la_SOURCES = tests/unit/nvml_stub.c
tests_unit_nvml_useless_la_CPPFLAGS = -DNVML_STUB_BARE -DNVML_STUB_NO_HANDLES
tests_unit_nvml_useless_la_LDFLAGS = $(stub_flags)

# And for an OpenMP runtime.
check_LTLIBRARIES += tests/unit/libomp.la
tests_unit_libomp_la_SOURCES = tests/unit/omp_stub.c
tests_unit_libomp_la_LDFLAGS = $(stub_flags)

# And for a clock: one that jumps.
check_LTLIBRARIES += tests/cli/odd_clock.la
tests_cli_odd_clock_la_SOURCES = tests/cli/odd_clock.c
tests_cli_odd_clock_la_LDFLAGS = $(stub_flags)

# And for a disk: a slow one, and one that fails.
check_LTLIBRARIES += tests/cli/slow_disk.la
tests_cli_slow_disk_la_SOURCES = tests/cli/slow_disk.c
tests_cli_slow_disk_la_LDFLAGS = $(stub_flags)
tests_cli_slow_disk_la_LIBADD = -ldl

check_LTLIBRARIES += tests/cli/bad_disk.la
tests_cli_bad_disk_la_SOURCES = tests/cli/bad_disk.c
tests_cli_bad_disk_la_LDFLAGS = $(stub_flags)
tests_cli_bad_disk_la_LIBADD = -ldl

# And for NVIDIA's CUDA driver, whose kernels are the GPU's sources compiled for the CPU; and for the module with
# machine code.
check_LTLIBRARIES += tests/cuda/driver_stub.la tests/cuda/module_stub.la tests/cuda/library_stub.la
tests_cuda_driver_stub_la_SOURCES = tests/cuda/driver_stub.c src/platform/fpmode.c
tests_cuda_driver_stub_la_CFLAGS = $(AM_CFLAGS) $(EXACT) $(inline_fma)
# Kernels call fmaf for each product, which is a call of a library unless the compiler may assume that the CPU has it.
inline_fma = `grep -qw fma /proc/cpuinfo 2>/dev/null && echo -mfma`
tests_cuda_driver_stub_la_LDFLAGS = $(stub_flags)
tests_cuda_module_stub_la_SOURCES = tests/cuda/module_stub.c
tests_cuda_module_stub_la_LDFLAGS = $(stub_flags)
tests_cuda_library_stub_la_SOURCES = tests/cuda/library_stub.c
tests_cuda_library_stub_la_CFLAGS = $(AM_CFLAGS) -O3
tests_cuda_library_stub_la_LDFLAGS = $(stub_flags)

if HAVE_NVCC
check_LTLIBRARIES += tests/cuda/libconstants.la
tests_cuda_libconstants_la_SOURCES = tests/cuda/constants.c
tests_cuda_libconstants_la_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_INCLUDES)
endif

# And for NCCL, where its header is.
EXTRA_DIST += tests/cuda/nccl_stub.c
if HAVE_NCCL
check_LTLIBRARIES += tests/cuda/nccl_stub.la
tests_cuda_nccl_stub_la_SOURCES = tests/cuda/nccl_stub.c
tests_cuda_nccl_stub_la_CFLAGS = $(AM_CFLAGS) $(NCCL_CFLAGS)
tests_cuda_nccl_stub_la_LDFLAGS = $(stub_flags)
endif

EXTRA_DIST += tests/cuda/which_gpu.sh tests/bits/trained.sh tools/gpu-report

# Networks whose plans are compared with files, models of data/models and some of the tests; networks with
# digests.
plan_networks = batch_norm branches doubled flat_branches frozen no_pool own_pool pool_first read_often repeats \
  scores_as_image shard_norm shared stages
plan_models = allconv char-lstm cifar-94 cnn gpt-nano lenet5 linear llama-nano mlp mnist-99 regression resnet
bits_networks = activations deep ended gpu_reuse groups large llama losses mixed mixed_samples native norm \
  optimizers patches pixels probabilities resized rules several signal smooth shard_norm shard_norms shared soft \
  streamed text tiles tiny transforms fine_tune fine_tune_pools states units upsampled wide preact bn3 conv_swish_norm \
  norm_after_flatten two_norms_swish two_lstm two_gru heads
EXTRA_DIST += $(plan_networks:%=tests/plan/%.yaml) $(plan_networks:%=tests/plan/%.plan) \
  $(plan_models:%=tests/plan/%.plan) $(bits_networks:%=tests/bits/%.yaml) tests/plan/networks tests/older

# Everything: each test of make check at more shapes, layouts and cases, and the rare ones.
check-all:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(rare_tests) $(TESTS)' HD_DEPTH=2
.PHONY: check-all

# Digests alone: for a second compiler. GPUs' kernels are not its own.
check-digests:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(bits_tests) $(large_bits) $(host_bits)' \
	  check_PROGRAMS='tests/bits/make_data tests/bits/make_idx' check_LTLIBRARIES=
.PHONY: check-digests

# Of a build with --enable-static.
check-archives:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='tests/check-symbols.sh tests/install.sh' check_PROGRAMS= check_LTLIBRARIES=
.PHONY: check-archives

# For builds with sanitizers, which are slow.
# Of the command line, what reads files and settings. Up to GCC 13 and LLVM 16 the leak sanitizer takes one place in a
# page for the header that glibc wrote before 2.25 in front of a thread's variables, and fails at exit with a signal 11
# where one of them happens to lie there. intercept_tls_get_addr=0 keeps it from looking.
sanitized_cli_tests = tests/cli/data.bats tests/cli/errors.bats tests/cli/export.bats tests/cli/files.bats \
  tests/cli/losses.bats tests/cli/text_export.bats \
  tests/cli/predict.bats tests/cli/summary.bats tests/cli/text.bats tests/cli/transforms.bats
check-sanitized:
	LSAN_OPTIONS=suppressions='$(abs_top_srcdir)'/tests/leaks.supp:print_suppressions=0:intercept_tls_get_addr=0 \
	  $(MAKE) $(AM_MAKEFLAGS) check TESTS='$(unit_tests) $(op_tests) $(sanitized_cli_tests)' \
	  check_PROGRAMS='$(unit_tests) $(op_tests) $(script_programs)'
.PHONY: check-sanitized
EXTRA_DIST += tests/leaks.supp

# Every combination of settings, a kill and a resume for each.
check-bits:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(bits_tests) $(large_bits) $(host_bits) $(gpu_bits)' HD_DEPTH=3
.PHONY: check-bits

# What takes minutes each, on an idle machine: ranks that are killed and stopped, over a hundred runs; thousands of
# random networks; a run that is killed at each of its system calls; the thread sanitizer; fuzzing; a page's training.
long_programs = tests/op/test_kernels tests/op/test_gradients
long_scripts = tests/cli/tutorials.bats tests/long-ranks.sh tests/long-networks.sh tests/fault/kill-everywhere.sh \
  tests/thread-sanitizer.sh tests/fuzz/fuzz-for-minutes.sh
check-long:
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(long_programs) $(long_scripts)' HD_DEPTH=3
.PHONY: check-long
EXTRA_DIST += $(long_scripts)

# The NEON kernels on any machine, by cross-compiler and emulator.
check-neon:
	+$(SHELL) $(srcdir)/tools/check-neon neon
.PHONY: check-neon
EXTRA_DIST += tools/check-neon

# Untrusted input: kept inputs are replayed, new ones made up by tools/fuzz, with clang.
fuzz_targets = tests/fuzz/targets.c tests/fuzz/fuzz.h
tests_fuzz_test_fuzz_SOURCES = tests/fuzz/test_fuzz.c $(fuzz_targets)
EXTRA_PROGRAMS += tests/fuzz/libfuzzer
tests_fuzz_libfuzzer_SOURCES = tests/fuzz/libfuzzer.c $(fuzz_targets)
tests_fuzz_libfuzzer_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
EXTRA_DIST += tests/fuzz/corpus tools/fuzz

# Operations, gradients, trajectories, digests and checkpoints that change the device, on this machine's GPUs with the
# modules of this build, and compute-sanitizer over a run.
gpu_tests = tests/op/test_kernels tests/cuda/test_gpu_gradients tests/golden/test_golden tests/bits/gpu_digests.sh \
  tests/bits/gpu_native.sh tests/bits/gpus_digests.sh tests/bits/networks.sh tests/cuda/sanitizer.sh
check-gpu: all
	@HEDDLE_CUDA_MODULE='$(abs_top_builddir)/.libs/heddle-cuda.so' \
	  ./heddle train --device cuda --model simplenet --max-steps 1 \
	  --out gpu-probe >gpu-probe.log 2>&1; code=$$?; rm -rf gpu-probe; \
	if test $$code -ne 0; then echo "check-gpu: skipped: `cat gpu-probe.log`"; else \
	  HD_GPU=real $(MAKE) $(AM_MAKEFLAGS) check TESTS='$(gpu_tests)'; fi
.PHONY: check-gpu
CLEANFILES += gpu-probe.log
