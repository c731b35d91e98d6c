/* What the headers of operations are written in. NAME.h states the chains of an operation, the only text of them, as
 * functions of one unit of work:
 *
 *   int64_t NAME_count(const hd_geom *g)                    units of a sample; of a shard for REDUCE, STATS and SHARD
 *   void NAME_at(const op_call *c, int64_t n, int64_t i)    computes unit i of sample n, or of the shard in slot n
 *
 * Different units write different elements. Of an optimizer, NAME_at updates element e of a parameter, whose gradient
 * is g: from version t in w, m, v to version t + 1 in w1, m1, v1; it returns whether all numbers are finite.
 *
 * The headers are compiled three times: with `real` as float for the reference table, as double for gradient checks
 * (HD_REF_DOUBLE), and for the GPU (HD_OP_CUDA), whose op_call is in kernel/cuda/cuda_call.h. They use the common
 * subset of C and CUDA C++, and no other functions than these: REAL_FMA where a fused result is meant, REAL_EXP,
 * REAL_LOG, REAL_TANH, REAL_ERF and REAL_SQRT, OP_CHAINS16 for sums along a row. An operator is one operation with its
 * own rounding; brackets decide the order. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/exact_math.h"
#include "base/host_device.h"
#include "kernel/call.h"

#ifdef HD_REF_DOUBLE
typedef double real;
#define REAL_SQRT sqrt
#define REAL_EXP exp /* gradient checks only: no digest depends on it */
#define REAL_LOG log
#define REAL_TANH tanh
#define REAL_ERF erf
#else
typedef float real;
#define REAL_SQRT sqrtf
#define REAL_EXP hd__expf
#define REAL_LOG hd__logf
#define REAL_TANH hd__tanhf
#define REAL_ERF hd__erff
#ifndef REAL_FMA /* where the reference does not say how, see base/fma.h */
#define REAL_FMA fmaf
#endif
#endif

#ifndef HD_OP_CUDA
/* A call of the reference: rows 0 to rows - 1, or the one shard that has these rows. */
typedef hd_call op_call;
typedef hd_update op_update;
#define HD_UNROLL
#define HD_UNROLL_BY_8

HD_BOTH const hd_geom *op_geom(const op_call *c) { return c->g; }
/* Input k of sample n, as reals; a parameter; output k. */
HD_BOTH const real *op_in(const op_call *c, int k, int64_t n) { return (const real *)c->in[k] + n * c->in_stride[k]; }
HD_BOTH const real *op_param(const op_call *c, int k) { return (const real *)c->in[k]; }
HD_BOTH real *op_out(const op_call *c, int k, int64_t n) { return (real *)c->out[k] + n * c->out_stride[k]; }
/* Stores element i of a gradient of sample n's input; a GPU may compute that of the ReLU before it along. */
HD_BOTH void op_put_dx(const op_call *c, int64_t n, int64_t i, real dx) { op_out(c, 0, n)[i] = dx; }
/* Output k of the shard in slot `shard`: sums over its samples op_row0 to op_row1 - 1. */
HD_BOTH real *op_sums(const op_call *c, int k, int64_t shard) { return (real *)c->out[k]; }
HD_BOTH int64_t op_row0(const op_call *c, int64_t shard) { return 0; }
HD_BOTH int64_t op_row1(const op_call *c, int64_t shard) { return c->rows; }
/* Of the step: samples of the whole batch, the divisor of the loss's gradient, the keys of random numbers. */
HD_BOTH int64_t op_batch_samples(const op_call *c) { return c->batch_rows; }
HD_BOTH float op_divisor(const op_call *c) { return c->divisor; }
HD_BOTH hd_draw op_draw(const op_call *c) { return c->draw; }
#endif

HD_BOTH const uint8_t *op_bytes_in(const op_call *c, int k, int64_t n) {
  return (const uint8_t *)c->in[k] + n * c->in_stride[k];
}
HD_BOTH uint8_t *op_bytes_out(const op_call *c, int k, int64_t n) {
  return (uint8_t *)c->out[k] + n * c->out_stride[k];
}
HD_BOTH int32_t op_label(const op_call *c, int64_t n) { return ((const int32_t *)c->in[1])[n * c->in_stride[1]]; }

HD_BOTH int64_t op_pixels(const hd_geom *g) { return (int64_t)g->hi * g->wi; }
HD_BOTH int64_t op_elems(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

/* The rule of every maximum: a later value is taken only if it is greater or NaN. */
HD_BOTH int op_takes_over(real later, real best) { return later > best || later != later; }

HD_BOTH int update_finite(float x) { return x - x == 0; }

/* The fixed tree over 16 interleaved chains: s[i] + s[i + 8], then + 4, + 2, + 1. */
HD_BOTH real op_tree16(real *s) {
  HD_UNROLL
  for (int half = 8; half > 0; half /= 2)
    HD_UNROLL
  for (int i = 0; i < 8; i++)
    if (i < half)
      s[i] = s[i] + s[i + half];
  return s[0];
}

/* 16 interleaved chains from +0 over i < count of an expression in `i` and its chain's last value `s`: chain k takes i
 * = k mod 16; then their tree. */
#define OP_CHAINS16(result, count, expression)                                                                         \
  real result;                                                                                                         \
  do {                                                                                                                 \
    real chain_[16] = {0};                                                                                             \
    for (int64_t first_ = 0; first_ < (count); first_ += 16) {                                                         \
      HD_UNROLL                                                                                                        \
      for (int k_ = 0; k_ < 16; k_++) {                                                                                \
        const int64_t i = first_ + k_;                                                                                 \
        if (i < (count)) {                                                                                             \
          const real s = chain_[k_];                                                                                   \
          chain_[k_] = (expression);                                                                                   \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
    result = op_tree16(chain_);                                                                                        \
  } while (0)
