/* The GPU's kernels: a plain kernel for each row of ops.def, loops of a grid's threads around the units of the
 * operation; block kernels; those of HD_CUDA_EXTRA. Included once by each program that holds the kernels:
 * cuda_kernels.cu for the GPU, the tests' stub of the driver for the CPU. */
#pragma once

#include "kernel/cuda/cuda_clip.h"
#include "kernel/cuda/cuda_losses.h"
#include "kernel/cuda/cuda_names.h"
#include "kernel/cuda/cuda_native.h"
#include "kernel/cuda/cuda_params.h"
#include "kernel/cuda/cuda_partial_sums.h"
#include "kernel/cuda/cuda_ranks.h"
#include "op/op_blocks.h"
#include "op/op_headers.h"
#include "op/update_gpu.h"

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
#define OP_UPDATE(name) HD_UPDATE(name) OP_CHUNKS(name)
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

HD_KERNEL(gather, hd_cuda_gather) { HD_OVER(c->step->rows, gather, c->elems); }

HD_KERNEL(narrow, hd_cuda_convert) { HD_OVER(c->rows, narrow, c->columns); }
HD_KERNEL(widen, hd_cuda_convert) { HD_OVER(c->rows, widen, c->columns); }
HD_KERNEL(blank, hd_cuda_convert) { HD_OVER(c->rows, blank, c->columns); }
HD_KERNEL(finish, hd_cuda_call) { HD_OVER(c->step->rows, finish, finish_count(&c->g)); }
HD_KERNEL(spread, hd_cuda_call) { HD_OVER(c->step->rows, spread, spread_count(&c->g)); }
