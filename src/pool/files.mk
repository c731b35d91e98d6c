core_sources += src/pool/pool.c src/pool/future.c src/pool/pool_state.h src/pool/worker_process.c \
  src/pool/worker_process.h
