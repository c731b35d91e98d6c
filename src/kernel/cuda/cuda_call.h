/* The arguments of the GPU's kernels and a thread's position in the grid, for the kernels and the code that launches
 * them.
 *
 * A kernel call is for the whole batch: ROWS operations compute every sample, the others every shard that has
 * samples. Its arguments do not change from step to step, so that a step can be recorded once and replayed; what
 * changes is in the hd_cuda_step in device memory that `step` points to. Kernels are written in the common subset of
 * C and CUDA C++: nvcc compiles them for the GPU, and tests run the same source on the CPU.
 *
 * The rules of kernel/kernel.h hold: an output element is one chain, computed by one thread. No atomic additions. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/host_device.h"
#include "base/reduction.h"
#include "kernel/cuda/cuda_divisor.h"
#include "kernel/kernel.h"

enum { HD_CUDA_GROUPS = 32, HD_CUDA_CHANNELS = 4 };

/* The values of a step. Shards without samples are left out: slot k of the sums belongs to reduction.step[k], which
 * holds its rows. */
typedef struct hd_cuda_step {
  int64_t rows, samples; /* of this GPU; of the whole batch, by which its sums are divided */
  uint64_t seed;
  uint32_t epoch, position;
  float divisor;
  int32_t result; /* its index in the ring of results */
  hd_reduction reduction;
  hd_hyper hyper[HD_CUDA_GROUPS];
} hd_cuda_step;

/* The result of a step; whether its update was finite is in the table of parameters, hd_cuda_chunks. */
typedef struct hd_cuda_result {
  double loss_sum;
  int32_t failed; /* the loss, the norm or an earlier step was not finite: the version does not count */
} hd_cuda_result;

/* State from step to step. */
typedef struct hd_cuda_state {
  int32_t failed;   /* an earlier step was not finite: there are no more updates */
  int32_t lost;     /* this step's loss or norm is not finite */
  float grad_scale; /* of clipping; NaN if the norm is not finite */
} hd_cuda_state;

/* How the outputs of an operation are cut into blocks: as a matrix, rows of one factor (a) by rows of the other (b),
 * one matrix or one a shard. The host makes it, see cuda_block.h. */
typedef struct hd_cuda_cut {
  int32_t a_rows, b_rows; /* of the matrix; in a launch, of b without shards, those of a sample */
  int32_t steps;          /* of a chain; with a matrix a shard, of each sample */
  int32_t unit;           /* rows of b that stay together */
  int32_t by_shard;
  int32_t biased;                 /* the gradient of a bias is computed with that of the weight */
  int32_t b_side;                 /* rows of b that a block has */
  hd_cuda_divisor across, blocks; /* blocks of all rows of a; of a matrix */
  hd_cuda_divisor sample;         /* rows of b of a sample; with shards its steps */
} hd_cuda_cut;

/* The divisors of a convolution, by the names of hd_geom: squared: pool * pool; padded: floats of a line of the image
 * with its padding; across: tiles of a line of the output, or of the input. */
typedef struct hd_cuda_divisors {
  hd_cuda_divisor ci, co, kw, sh, sw, pool, wp, wi, squared, windows, padded, across, dx_across;
} hd_cuda_divisors;

/* An operation over the batch. Slots of in[] and out[] are those of kernel.h, row 0 first; outputs of REDUCE and STATS
 * are slot 0, sums_stride floats from one shard's to the next. */
typedef struct hd_cuda_call {
  hd_geom g;
  const void *in[HD_MAX_IN];
  void *out[HD_MAX_OUT];
  int64_t in_stride[HD_MAX_IN], out_stride[HD_MAX_OUT];
  int64_t sums_stride;
  const hd_cuda_step *step;
  uint32_t node;     /* of random numbers */
  const float *gate; /* of a gradient of the input: the outputs of the ReLU before it, whose gradient is computed along;
                        NULL: none is */
  int64_t gate_stride;
  hd_cuda_cut cut; /* block kernels */
  hd_cuda_divisors over;
} hd_cuda_call;

/* Samples from the data set in device memory. */
typedef struct hd_cuda_gather {
  const void *data; /* bytes or floats in planes */
  const int32_t *labels;
  const int32_t *sample; /* index of the sample of each row */
  float *x;
  int32_t *label;
  int64_t x_stride, label_stride, elems, plane;
  hd_cuda_divisor channels;
  int32_t bytes;
  float scale[HD_CUDA_CHANNELS], shift[HD_CUDA_CHANNELS];
  const hd_cuda_step *step;
} hd_cuda_gather;

/* Conversion of rows of floats for NVIDIA's libraries: the side of bfloat16 is packed. */
typedef struct hd_cuda_convert {
  const void *from;
  void *to;
  int64_t rows, columns, stride; /* stride: of rows of floats */
  const hd_cuda_step *step;
} hd_cuda_convert;

/* Reduction of shard sums for later kernels: `count` floats, or mean and sum of squares of each channel, from which the
 * variance follows. Or, with several GPUs, of the sums of this GPU's shards to its partial sums, out_stride floats
 * apart. */
typedef struct hd_cuda_reduce {
  const float *sums, *sums2;
  float *out, *out2;
  int64_t sums_stride, out_stride, count, pixels; /* pixels: of a sample, for statistics */
  int32_t as_one;                                 /* partial sums are added, too: NCCL takes one sum of each GPU */
  const hd_cuda_step *step;
} hd_cuda_reduce;

/* Reduction of the arrays of several ranks, `stride` elements apart, of a hd_dtype by a hd_reduce_op. */
typedef struct hd_cuda_ranks {
  const void *from;
  void *to;
  int64_t stride, count;
  int32_t ranks, dtype, op;
} hd_cuda_ranks;

/* The update of running statistics by those of the batch. */
typedef struct hd_cuda_running {
  const float *batch, *old;
  float *now;
  int64_t count, pixels;
  float momentum;
  int32_t unbias;
  const hd_cuda_step *step;
  const hd_cuda_state *state;
} hd_cuda_running;

/* A chunk of a parameter, the work of one block. */
typedef struct hd_cuda_chunk {
  int64_t first;  /* of weights, gradients and states */
  int64_t inside; /* of the parameter */
  int32_t count, param, group;
  int32_t first_use, uses;
  int32_t row; /* of the parameter, the first */
  hd_cuda_divisor columns;
} hd_cuda_chunk;

/* The gradient of a use of a parameter; uses are in reverse order of the nodes. Either it is in the sums of each shard,
 * from `at` on, or the update forms it, from a layer's input and the gradient of its output, if no shard has more
 * samples than HD_FORMED_ROWS: with few, a product costs less than to write and read the sums. */
enum { HD_FORMED_ROWS = 8 };
typedef struct hd_cuda_use {
  int64_t at;
  int32_t is_sum; /* of the whole batch: in the slot of the first shard alone */
  int32_t op;     /* that forms it: a hd_op */
  int32_t output; /* 1: it is a bias's */
  float shift;
  const float *x, *dy; /* dy: NULL, it is not formed; x: NULL, the samples of the step */
  int64_t x_stride, dy_stride;
} hd_cuda_use;

/* Reduction and update of all chunks. */
typedef struct hd_cuda_chunks {
  const hd_cuda_chunk *chunk;
  const hd_cuda_use *use;
  int32_t chunks, params;
  const float *sums;
  int64_t sums_stride;
  float *grad;     /* clipping: reduced gradients; else NULL */
  double *squares; /* a sum for each chunk, then their tree */
  double clip_norm;
  const float *w, *s[HD_MAX_STATES];
  float *w1, *s1[HD_MAX_STATES];
  int32_t *bad; /* per parameter: 0, or 1 + the result of the step whose update was not finite */
  const float *losses, *input;
  hd_cuda_state *state;
  hd_cuda_result *result;
  const hd_cuda_step *step;
} hd_cuda_chunks;

/* ---- The position of a thread: its column and row in the grid, and the size of the grid. ---- */

#ifdef __CUDACC__
#define HD_ALIGNED(bytes) alignas(bytes)
#define HD_UNROLL _Pragma("unroll")
#define HD_UNROLL_BY_8 _Pragma("unroll 8")
#define HD_X ((int64_t)blockIdx.x * blockDim.x + threadIdx.x)
#define HD_Y ((int64_t)blockIdx.y * blockDim.y + threadIdx.y)
#define HD_WIDTH ((int64_t)gridDim.x * blockDim.x)
#define HD_HEIGHT ((int64_t)gridDim.y * blockDim.y)
#else
#define HD_ALIGNED(bytes) _Alignas(bytes)
#define HD_UNROLL
#define HD_UNROLL_BY_8
#define HD_X (hd_cuda_here.x)
#define HD_Y (hd_cuda_here.y)
#define HD_WIDTH (hd_cuda_here.width)
#define HD_HEIGHT (hd_cuda_here.height)
typedef struct hd_cuda_place {
  int64_t x, y, width, height;
  int64_t block;     /* of a block kernel, which runs once a block, see cuda_block.h */
  int32_t backwards; /* its threads run from the last to the first */
} hd_cuda_place;
#endif

/* ---- The units of operations for the GPU: a thread computes one in the plain kernels, block kernels take their chains
 * from there. Access to arguments, as kernel/unit.h describes it ---- */

#define HD_OP_CUDA
typedef hd_cuda_call op_call;
typedef hd_cuda_chunks op_update;

HD_BOTH const hd_geom *op_geom(const hd_cuda_call *c) { return &c->g; }
HD_BOTH const float *op_in(const hd_cuda_call *c, int k, int64_t n) {
  return (const float *)c->in[k] + n * c->in_stride[k];
}
HD_BOTH const float *op_param(const hd_cuda_call *c, int k) { return (const float *)c->in[k]; }
HD_BOTH float *op_out(const hd_cuda_call *c, int k, int64_t n) { return (float *)c->out[k] + n * c->out_stride[k]; }
HD_BOTH float *op_sums(const hd_cuda_call *c, int k, int64_t shard) {
  return (float *)c->out[k] + shard * c->sums_stride;
}
HD_BOTH void op_put_dx(const hd_cuda_call *c, int64_t n, int64_t i, float dx) {
  op_out(c, 0, n)[i] = c->gate && !(c->gate[n * c->gate_stride + i] > 0) ? 0 : dx;
}
HD_BOTH int64_t op_row0(const hd_cuda_call *c, int64_t shard) { return c->step->reduction.step[shard].row0; }
HD_BOTH int64_t op_row1(const hd_cuda_call *c, int64_t shard) { return c->step->reduction.step[shard].row1; }
HD_BOTH int64_t op_batch_samples(const hd_cuda_call *c) { return c->step->samples; }
HD_BOTH float op_divisor(const hd_cuda_call *c) { return c->step->divisor; }
HD_BOTH hd_draw op_draw(const hd_cuda_call *c) {
  const hd_draw draw = {c->step->seed, c->step->epoch, c->step->position, c->node};
  return draw;
}

#include "kernel/unit.h"
