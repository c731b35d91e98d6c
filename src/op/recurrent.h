/* What the recurrent layers share. The input of a place is the product of the layer's input with its `weight_ih`, plus
 * `bias_ih`, which a layer before this one computes for all places: of each gate as many channels as the state has. The
 * state of a place, which is the output there, depends on that of the place before; that before the first is 0. */
#pragma once

#include "kernel/unit.h"

/* The share of the state before place t in channel j of the gates: `weight_hh` times the state, plus `bias_hh`. */
HD_BOTH real recurrent_share(const op_call *c, int64_t n, int t, int j) {
  const int width = op_geom(c)->co;
  const real *h = op_out(c, 0, n) + (int64_t)(t - 1) * width, *w = op_param(c, 1) + (int64_t)j * width;
  real acc = 0;
  for (int k = 0; k < width && t > 0; k++)
    acc = REAL_FMA(h[k], w[k], acc);
  return c->in[2] ? acc + op_param(c, 2)[j] : acc;
}

/* The input of place t. */
HD_BOTH const real *recurrent_in(const op_call *c, int64_t n, int t) {
  return op_in(c, 0, n) + (int64_t)(t - op_geom(c)->recurrent.first) * op_geom(c)->ci;
}

HD_BOTH real recurrent_sigmoid(real x) {
  const real e = REAL_EXP(x < 0 ? x : 0 - x);
  return (x < 0 ? e : 1) / (1 + e);
}

/* What the gates of the place behind place t give to the gradient of channel k of its state; 0 at the last place.
 * `gates`: the gradient of these shares. */
HD_BOTH real recurrent_back(const op_call *c, const real *gates, int t, int k) {
  const hd_geom *g = op_geom(c);
  const real *w = op_param(c, 1) + k, *of_next = gates + (int64_t)(t + 1) * g->ci;
  real acc = 0;
  for (int j = 0; j < g->ci && t + 1 < g->wi; j++)
    acc = REAL_FMA(of_next[j], w[(int64_t)j * g->co], acc);
  return acc;
}

/* The gradient of weight_hh and bias_hh from the states, in[0], and the gradient of the shares, in[1]: a weight, or
 * behind all of them a bias. */
HD_BOTH void recurrent_dw(const op_call *c, int64_t shard, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int64_t weights = (int64_t)g->ci * g->co, j = i < weights ? i / g->co : i - weights;
  const int is_bias = i >= weights;
  real acc = 0;
  if (!c->out[is_bias])
    return;
  for (int64_t n = op_row0(c, shard); n < op_row1(c, shard); n++)
    for (int64_t t = !is_bias; t < g->wi; t++) {
      const real dy = op_in(c, 1, n)[t * g->ci + j];
      acc = is_bias ? acc + dy : REAL_FMA(dy, op_in(c, 0, n)[(t - 1) * g->co + i % g->co], acc);
    }
  op_sums(c, is_bias, shard)[is_bias ? j : i] = is_bias ? acc : acc + 0;
}

#define OP_RECURRENT(name)                                                                                             \
  HD_BOTH int64_t name##_count(const hd_geom *g) { return 1; }                                                         \
  HD_BOTH int64_t name##_dx_count(const hd_geom *g) { return 1; }                                                      \
  HD_BOTH int64_t name##_dw_count(const hd_geom *g) { return (int64_t)g->ci * (g->co + 1); }                           \
  HD_BOTH void name##_at(const op_call *c, int64_t n, int64_t unused) {                                                \
    for (int t = op_geom(c)->recurrent.first; t < op_geom(c)->wi; t++)                                                 \
      for (int k = 0; k < op_geom(c)->co; k++)                                                                         \
        name##_step(c, n, t, k);                                                                                       \
  }                                                                                                                    \
  HD_BOTH void name##_dx_at(const op_call *c, int64_t n, int64_t unused) {                                             \
    for (int t = op_geom(c)->wi - 1; t >= 0; t--)                                                                      \
      for (int k = 0; k < op_geom(c)->co; k++)                                                                         \
        name##_step_back(c, n, t, k);                                                                                  \
  }                                                                                                                    \
  HD_BOTH void name##_dw_at(const op_call *c, int64_t shard, int64_t i) { recurrent_dw(c, shard, i); }
