/* Kernels, and block kernels, in which the threads of a block work together, in phases. Such a kernel is written so:
 *
 *     HD_BLOCK_KERNEL(name, hd_cuda_call) {            arguments are c->...; the block's number is HD_BLOCK
 *       HD_SHARED(float, tile, [16][33]);              one array for the block
 *       HD_PER_THREAD(float, sum, 4);                  4 elements a thread, in registers if every index is a constant
 *       HD_PHASE { tile[t / 32][t % 32] = ...; }       all threads t < HD_CUDA_BLOCK; then a barrier
 *       HD_PHASE { HD_THIS(sum)[0] = tile[0][t]; }     `continue` ends a thread's phase, nothing else leaves it
 *     }
 *
 * nvcc compiles a phase to its body and a barrier, a C compiler to a loop over the threads. Everything that outlives a
 * phase is therefore shared or per-thread memory: on the CPU a per-thread array has a row for each thread, which
 * HD_THIS selects. Code outside of phases is run by every thread alike and must not depend on t.
 *
 * Phases may stand in a function of a kernel, HD_BY_BLOCK, with per-thread parameters HD_PER_THREAD_ARG(float, sum,
 * 4).
 *
 * On the CPU shared and per-thread memory begin as NaN, and the stub of the driver reverses the order of threads
 * from launch to launch: a read of uninitialized memory, or of what another thread writes in the same phase, changes
 * results.
 *
 * HD_TILED(op, name, what, a_side, b_side) begins a block kernel of an operation, faster than a thread for each
 * element. what_matrix(g, rows), a function of the host, returns its work for a batch of `rows` rows as cuda_matrix()
 * of rows of a and b, steps and unit; a block computes a_side x b_side of that. Of several kernels with one matrix the
 * one with the largest blocks comes first. tools/list-sources finds the lines that begin with HD_BLOCK_KERNEL,
 * HD_TILED, HD_ROWS (cuda_rows.h) and HD_CHANNELS (cuda_channels.h). */
#pragma once

#include "kernel/cuda/cuda_call.h"
#include "kernel/cuda/cuda_names.h"

#define HD_TILED(op, name, what, a_side, b_side) HD_BLOCK_KERNEL(name, hd_cuda_call)

#ifdef __CUDACC__

#define HD_KERNEL_OF(name, args, bounds)                                                                               \
  static __device__ void name##_body(const args *c);                                                                   \
  extern "C" __global__ void bounds hdk_##name(const __grid_constant__ args c) { name##_body(&c); }                    \
  static __device__ void name##_body(const args *c)
#define HD_KERNEL(name, args) HD_KERNEL_OF(name, args, __launch_bounds__(HD_CUDA_BLOCK))
/* Two blocks or more at a time on a multiprocessor: at most 128 registers a thread, 48 KiB of shared memory a block. */
#define HD_BLOCK_KERNEL(name, args) HD_KERNEL_OF(name, args, __launch_bounds__(HD_CUDA_BLOCK, 2))
#define HD_BLOCK ((int64_t)blockIdx.x)
#define HD_BY_BLOCK static __device__ __forceinline__
#define HD_SHARED(type, name, size) __shared__ __align__(16) type name size
#define HD_PER_THREAD(type, name, count) type name[count]
#define HD_PER_THREAD_ARG(type, name, count) type *name
#define HD_THIS(name) (name)
#define HD_PHASE for (int t = (int)threadIdx.x, once_ = 1; once_ && t >= 0; once_ = 0, __syncthreads())

#else

#include <string.h>

static hd_cuda_place hd_cuda_here;
#define HD_KERNEL(name, args)                                                                                          \
  static inline void name##_body(const args *c);                                                                       \
  static inline void hdk_##name(const void *c) { name##_body((const args *)c); }                                       \
  static inline void name##_body(const args *c)
#define HD_BLOCK_KERNEL HD_KERNEL
#define HD_BLOCK (hd_cuda_here.block)
#define HD_BY_BLOCK static inline
#define HD_SHARED(type, name, size)                                                                                    \
  type name size;                                                                                                      \
  memset(name, 0xff, sizeof name)
#define HD_PER_THREAD(type, name, count)                                                                               \
  type name[HD_CUDA_BLOCK][count];                                                                                     \
  memset(name, 0xff, sizeof name)
#define HD_PER_THREAD_ARG(type, name, count) type(*name)[count]
#define HD_THIS(name) (name[t])
#define HD_PHASE                                                                                                       \
  for (int i_ = 0, t = hd_cuda_here.backwards ? HD_CUDA_BLOCK - 1 : 0; i_ < HD_CUDA_BLOCK;                             \
       i_++, t += hd_cuda_here.backwards ? -1 : 1)

#endif

/* A block's part of the matrix, from (a0, b0) on; a last one extends over the end. */
typedef struct cuda_part {
  const hd_cuda_call *c;
  int32_t a_rows, b_rows; /* of the matrix; b_rows: where the part ends */
  int32_t steps;          /* of a chain */
  int32_t a0, b0;
  int64_t shard, row0; /* and its first sample */
} cuda_part;

/* For a shape that the kernel does not support. */
HD_BOTH hd_cuda_cut cuda_no_matrix(void) {
  const hd_cuda_cut none = {0, 0, 0, 1, 0, 0, 0, {1, 1, 0}, {1, 1, 0}, {1, 1, 0}};
  return none;
}

/* One matrix; or one for each shard of a batch of `shard_rows` samples, which is 0 for a GPU without samples. */
enum { HD_NO_SHARDS = -1 };
HD_BOTH hd_cuda_cut cuda_matrix(int64_t a_rows, int64_t b_rows, int64_t steps, int32_t unit, int64_t shard_rows) {
  const int64_t most = INT32_MAX / 2;
  hd_cuda_cut cut = cuda_no_matrix();
  if (a_rows > most || b_rows > most || steps * (shard_rows > 0 ? shard_rows : 1) > most)
    return cut;
  cut.a_rows = (int32_t)a_rows;
  cut.b_rows = (int32_t)b_rows;
  cut.steps = (int32_t)steps;
  cut.unit = unit;
  cut.by_shard = shard_rows >= 0;
  return cut;
}

HD_BOTH int64_t cuda_ceil(int64_t rows, int64_t side) { return (rows + side - 1) / side; }

/* Cuts a matrix into blocks of a_side x b_side, of `rows` samples; returns how many there are of it, 0: b_side is less
 * than a unit. */
HD_BOTH int64_t cuda_cut(hd_cuda_cut *cut, int a_side, int b_side, int64_t rows) {
  const int64_t across = cuda_ceil(cut->a_rows, a_side), side = b_side / cut->unit * cut->unit;
  const int64_t blocks = side == 0 ? 0 : across * cuda_ceil(cut->b_rows, side);
  if (blocks == 0 || blocks > INT32_MAX / HD_CUDA_BLOCK)
    return 0;
  cut->b_side = (int32_t)side;
  cut->across = cuda_divisor((int32_t)across);
  cut->blocks = cuda_divisor((int32_t)blocks);
  if (!cut->by_shard)
    cut->b_rows = (int32_t)(cut->b_rows / rows);
  cut->sample = cuda_divisor(cut->by_shard ? cut->steps : cut->b_rows);
  return blocks;
}

/* The part of block `block`. 0: there is none, the batch has fewer samples or shards. */
HD_BOTH int cuda_place(cuda_part *p, const hd_cuda_call *c, int64_t block, int a_side) {
  const hd_cuda_cut *cut = &c->cut;
  int32_t at = (int32_t)block;
  p->c = c;
  p->a_rows = cut->a_rows;
  p->b_rows = cut->by_shard ? cut->b_rows : cut->b_rows * (int32_t)c->step->rows;
  p->steps = cut->steps;
  p->shard = p->row0 = 0;
  if (cut->by_shard) {
    p->shard = cuda_over(at, cut->blocks);
    if (p->shard >= c->step->reduction.count)
      return 0;
    at = cuda_rest(at, cut->blocks);
    p->row0 = op_row0(c, p->shard);
    p->steps *= (int32_t)(op_row1(c, p->shard) - p->row0);
  }
  p->a0 = cuda_rest(at, cut->across) * a_side;
  p->b0 = cuda_over(at, cut->across) * cut->b_side;
  if (p->b0 >= p->b_rows)
    return 0;
  if (p->b_rows > p->b0 + cut->b_side)
    p->b_rows = p->b0 + cut->b_side;
  return 1;
}

/* The values that a product computes once for a row: its place in memory, and its coordinates. */
typedef struct cuda_line {
  const float *from; /* NULL: the row is outside of the matrix */
  const uint8_t *bytes;
  int32_t y, x;
} cuda_line;
HD_BOTH cuda_line cuda_line_at(const float *from) {
  const cuda_line line = {from, 0, 0, 0};
  return line;
}

/* Whether pixel (y, x) lies in an image. */
HD_BOTH int cuda_is_inside(int y, int x, int height, int width) {
  return (uint32_t)y < (uint32_t)height && (uint32_t)x < (uint32_t)width;
}
