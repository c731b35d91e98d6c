/* The numbers of the kernels: first the operations (hd_op), then those of no operation, then the block kernels. */
#pragma once

#include "kernel/cuda/cuda_call.h"

enum { HD_CUDA_BLOCK = 256 }; /* threads of a block, at most */

/* Kernels of no operation. KERNEL(name, arguments) */
#define HD_CUDA_EXTRA(KERNEL)                                                                                          \
  KERNEL(gradients, hd_cuda_chunks)                                                                                    \
  KERNEL(reduce, hd_cuda_reduce)                                                                                       \
  KERNEL(reduce_stats, hd_cuda_reduce)                                                                                 \
  KERNEL(partial_sums, hd_cuda_reduce)                                                                                 \
  KERNEL(partial_stats, hd_cuda_reduce)                                                                                \
  KERNEL(ranks, hd_cuda_ranks)                                                                                         \
  KERNEL(running, hd_cuda_running)                                                                                     \
  KERNEL(gather, hd_cuda_gather)                                                                                       \
  KERNEL(narrow, hd_cuda_convert)                                                                                      \
  KERNEL(widen, hd_cuda_convert)                                                                                       \
  KERNEL(blank, hd_cuda_convert)                                                                                       \
  KERNEL(finish, hd_cuda_call)                                                                                         \
  KERNEL(spread, hd_cuda_call)

typedef enum hd_cuda_extra {
  HD_CUDA_before_extra = HD_OP_COUNT - 1,
#define KERNEL(name, args) HD_CUDA_##name,
  HD_CUDA_EXTRA(KERNEL)
#undef KERNEL
#define BLOCK(name, args) HD_CUDA_##name,
#define TILED(op, name, what, a_side, b_side) HD_CUDA_##name,
#include "kernel/cuda/cuda_blocks.def"
      HD_CUDA_COUNT
} hd_cuda_extra;
