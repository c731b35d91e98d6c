# Developers' benches (make bench/bench_kernels), built with the tests so that they keep compiling, never installed.
check_PROGRAMS += bench/bench_kernels bench/bench_linear bench/bench_threads bench/bench_topology bench/count_steps

# Instructions of a step, against those recorded.
EXTRA_DIST += bench/performance_table bench/instructions bench/instructions.txt

# Networks that nobody tuned kernels for.
EXTRA_DIST += bench/models/cnn-stride.yaml bench/models/colour.yaml bench/models/residual.yaml bench/models/separable.yaml \
  bench/models/wide-5x5.yaml
