core_sources += src/bench/machine.c src/bench/machine.h src/bench/probe.c src/bench/probe.h src/bench/step.c \
  src/bench/conv.c src/bench/gemm.c src/bench/barrier.c src/bench/loader.c
core_sources += src/bench/allreduce.c
