/* Which kernels there are: operations have their own numbers (hd_op), the others follow. */
#ifndef HD_KERNEL_CUDA_NAMES_H
#define HD_KERNEL_CUDA_NAMES_H

#include "kernel/cuda/cuda_call.h"

enum { HD_CUDA_BLOCK = 256 }; /* threads of a block, at most */

/* KERNEL(name, arguments) */
#define HD_CUDA_OWN(KERNEL)                                                                                            \
  KERNEL(fold, hd_cuda_chunks)                                                                                         \
  KERNEL(squares, hd_cuda_chunks)                                                                                      \
  KERNEL(clip, hd_cuda_chunks)                                                                                         \
  KERNEL(close, hd_cuda_chunks)                                                                                        \
  KERNEL(meet, hd_cuda_meet)                                                                                           \
  KERNEL(meet_stats, hd_cuda_meet)                                                                                     \
  KERNEL(cover, hd_cuda_meet)                                                                                          \
  KERNEL(cover_stats, hd_cuda_meet)                                                                                    \
  KERNEL(ranks, hd_cuda_ranks)                                                                                         \
  KERNEL(running, hd_cuda_running)                                                                                     \
  KERNEL(gather, hd_cuda_gather)                                                                                       \
  KERNEL(narrow, hd_cuda_convert)                                                                                      \
  KERNEL(widen, hd_cuda_convert)                                                                                       \
  KERNEL(blank, hd_cuda_convert)                                                                                       \
  KERNEL(finish, hd_cuda_call)                                                                                         \
  KERNEL(spread, hd_cuda_call)

typedef enum hd_cuda_own {
  HD_CUDA_before_own = HD_OP_COUNT - 1,
#define KERNEL(name, args) HD_CUDA_##name,
  HD_CUDA_OWN(KERNEL)
#undef KERNEL
      HD_CUDA_COUNT
} hd_cuda_own;

#endif
