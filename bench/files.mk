# Developers' benches (make bench/bench_kernels), built with the tests so that they keep compiling, never installed.
check_PROGRAMS += bench/bench_kernels bench/bench_linear bench/bench_threads bench/bench_topology
