core_sources += src/exec/exec.c src/exec/exec.h src/exec/exec_state.h src/exec/exec_shards.c src/exec/exec_chunks.c \
  src/exec/exec_layout.c src/exec/exec_stats.c src/exec/exec_eval.c src/exec/exec_speed.c src/exec/exec_ranks.c \
  src/exec/exec_hosts.c src/exec/store.c src/exec/store.h
core_sources += src/exec/exec_cuda.c src/exec/exec_cuda.h src/exec/exec_cuda_state.h src/exec/exec_cuda_launch.c \
  src/exec/exec_cuda_lower.c src/exec/exec_cuda_memory.c \
  src/exec/exec_cuda_native.c src/exec/exec_cuda_trace.c src/exec/exec_cuda_share.c \
  src/exec/exec_cuda_share.h src/exec/exec_cuda_nccl.c src/exec/exec_cuda_nccl.h
core_sources += src/exec/trace.c src/exec/trace.h src/exec/tally.c src/exec/tally.h
