/* Definitions of the kernels: loops of a grid's threads around the element functions, one kernel for each row of
 * ops.def and those of HD_CUDA_EXTRA, which lists them with the types of their arguments. Included once by each
 * program that holds the kernels: cuda_kernels.cu for the GPU, the tests' stub of the driver for the CPU. */
#pragma once

#include "kernel/cuda/cuda_block.h"
#include "kernel/cuda/cuda_ops.h"
#include "kernel/cuda/cuda_conv_live.h"
#include "kernel/cuda/cuda_conv_scatter.h"
#include "kernel/cuda/cuda_conv_tiles.h"
#include "kernel/cuda/cuda_partial_sums.h"
#include "kernel/cuda/cuda_linear_tiles.h"
#include "kernel/cuda/cuda_names.h"
#include "kernel/cuda/cuda_native.h"
#include "kernel/cuda/cuda_params.h"
#include "kernel/cuda/cuda_ranks.h"

#ifdef __CUDACC__
#define HD_KERNEL(name, args)                                                                                          \
  static __device__ void name##_body(const args *c);                                                                   \
  extern "C" __global__ void __launch_bounds__(HD_CUDA_BLOCK) hdk_##name(const __grid_constant__ args c) {             \
    name##_body(&c);                                                                                                   \
  }                                                                                                                    \
  static __device__ void name##_body(const args *c)
/* Two blocks or more at a time on a multiprocessor: at most 128 registers a thread, 48 KiB of shared memory a block. */
#define HD_BLOCK_KERNEL(name, args)                                                                                    \
  static __device__ void name##_block(const args *c);                                                                  \
  extern "C" __global__ void __launch_bounds__(HD_CUDA_BLOCK, 2) hdk_##name(const __grid_constant__ args c) {          \
    name##_block(&c);                                                                                                  \
  }                                                                                                                    \
  static __device__ void name##_block(const args *c)
#else
static hd_cuda_place hd_cuda_here;
#define HD_BLOCK_KERNEL HD_KERNEL
#define HD_KERNEL(name, args)                                                                                          \
  static void name##_body(const args *c);                                                                              \
  static void hdk_##name(const void *c) { name##_body((const args *)c); }                                              \
  static void name##_body(const args *c)
#endif

/* Rows of the grid are samples (or shards), columns are elements. */
#define HD_OVER(rows, name, count)                                                                                     \
  for (int64_t n = HD_Y; n < (rows); n += HD_HEIGHT)                                                                   \
    for (int64_t i = HD_X; i < (count); i += HD_WIDTH)                                                                 \
  name##_at(c, n, i)

#define OP_ROWS(name)                                                                                                  \
  HD_KERNEL(name, hd_cuda_call) { HD_OVER(c->step->rows, name, name##_count(&c->g)); }
#define OP_SHARDS(name)                                                                                                \
  HD_KERNEL(name, hd_cuda_call) { HD_OVER(c->step->reduction.count, name, name##_count(&c->g)); }
#define OP_SHARD OP_SHARDS
#define OP_REDUCE OP_SHARDS
#define OP_STATS OP_SHARDS
#define OP_CHUNKS(name)                                                                                                \
  HD_KERNEL(name, hd_cuda_chunks) {                                                                                    \
    for (int64_t y = HD_Y; y < c->chunks; y += HD_HEIGHT)                                                              \
      name##_over(c, HD_X, HD_WIDTH, y);                                                                               \
  }
#define OP_UPDATE OP_CHUNKS
#define OP(name, class) OP_##class(name)
#include "kernel/ops.def"

OP_CHUNKS(gradients)

#define OP_LINE(name, args)                                                                                            \
  HD_KERNEL(name, args) {                                                                                              \
    for (int64_t i = HD_X; i < c->count; i += HD_WIDTH)                                                                \
      name##_at(c, i);                                                                                                 \
  }
OP_LINE(reduce, hd_cuda_reduce)
OP_LINE(reduce_stats, hd_cuda_reduce)
OP_LINE(partial_sums, hd_cuda_reduce)
OP_LINE(partial_stats, hd_cuda_reduce)
OP_LINE(ranks, hd_cuda_ranks)
OP_LINE(running, hd_cuda_running)

#define OP_SIXTEEN(op, what, T) HD_SIXTEEN(what##_##T, what, T)
#define OP_PRODUCT(op, what, TA, TB) HD_PRODUCT(what##_##TA##_##TB, what, TA, TB)
#define OP_LIVE(op, what, R, threads) HD_LIVE(what##_##R, what, R, threads)
#define OP_SCATTER(op, what, elements) HD_SCATTER(what##_##elements, what, elements)
#define OP_CHANNELS(op, what)
#define OP_ROWS_OF(op, T)                                                                                              \
  HD_BLOCK_KERNEL(op##_rows_##T, hd_cuda_call) { op##_rows(c, T); }
#define OP_SHARD_ROWS(op)
#include "kernel/cuda/cuda_channels.h"
#include "kernel/cuda/cuda_clip.h"
#include "kernel/cuda/cuda_close.h"
#include "kernel/cuda/cuda_rows_loss.h"
#include "kernel/cuda/cuda_rows_norm.h"
HD_CUDA_TILED(OP_SIXTEEN, OP_PRODUCT, OP_LIVE, OP_SCATTER, OP_CHANNELS, OP_ROWS_OF, OP_SHARD_ROWS)

HD_KERNEL(gather, hd_cuda_gather) { HD_OVER(c->step->rows, gather, c->elems); }

HD_KERNEL(narrow, hd_cuda_convert) { HD_OVER(c->rows, narrow, c->columns); }
HD_KERNEL(widen, hd_cuda_convert) { HD_OVER(c->rows, widen, c->columns); }
HD_KERNEL(blank, hd_cuda_convert) { HD_OVER(c->rows, blank, c->columns); }
HD_KERNEL(finish, hd_cuda_call) { HD_OVER(c->step->rows, finish, finish_count(&c->g)); }
HD_KERNEL(spread, hd_cuda_call) { HD_OVER(c->step->rows, spread, spread_count(&c->g)); }
