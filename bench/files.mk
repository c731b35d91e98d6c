# Developers' benches (make bench/bench_kernels), built with the tests so that they keep compiling, never installed.
check_PROGRAMS += bench/bench_kernels bench/bench_linear bench/bench_threads bench/bench_topology bench/count_steps

# Instructions of a step, against those recorded.
EXTRA_DIST += bench/performance_table bench/random_networks bench/usual_networks bench/recipe_seeds bench/fine_tune \
  bench/instructions bench/instructions.txt bench/tables bench/estimators bench/gpu_instructions bench/museum

# Networks that no kernel was tuned for.
EXTRA_DIST += bench/models/cnn-stride.yaml bench/models/colour.yaml bench/models/pointwise.yaml \
  bench/models/residual.yaml bench/models/separable.yaml bench/models/tutorial-resnet.yaml bench/models/wide-5x5.yaml \
  bench/models/wide-groups.yaml bench/models/wide-linear.yaml

# With the updates of AVX-512 once more, changed.
check_PROGRAMS += bench/bench_contract
bench_bench_contract_SOURCES = bench/bench_contract.c
if HAVE_AVX512
check_LTLIBRARIES += bench/libunchecked.la
bench_libunchecked_la_SOURCES = bench/update_unchecked.c
bench_libunchecked_la_CPPFLAGS = $(CORE_CPPFLAGS) -DHD_ISA=avx512
bench_libunchecked_la_CFLAGS = $(KERNEL_CFLAGS) $(AVX512_CFLAGS)
bench_bench_contract_CPPFLAGS = $(AM_CPPFLAGS) -DHD_HAVE_UNCHECKED
bench_bench_contract_LDADD = bench/libunchecked.la $(LDADD)
endif

# Step time over hosts; and a module that delays the one between them: make bench/delayed/heddle-mpi.la
EXTRA_DIST += bench/scaling_model
check_LTLIBRARIES += bench/delayed/heddle-mpi.la
bench_delayed_heddle_mpi_la_SOURCES = bench/delayed_transport.c
bench_delayed_heddle_mpi_la_CPPFLAGS = $(CORE_CPPFLAGS)
bench_delayed_heddle_mpi_la_CFLAGS = -std=gnu11 $(WARNINGS) $(SANITIZE) -fvisibility=hidden
bench_delayed_heddle_mpi_la_LDFLAGS = $(SANITIZE) $(module_flags) -rpath $(abs_builddir)/bench/delayed
bench_delayed_heddle_mpi_la_LIBADD = -ldl
