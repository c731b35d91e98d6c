/* shifted_linear: a linear layer whose input lacks a constant: y = (x + shift) * w + b, with an optional ReLU, and the
 * gradients of its weight and bias. A normalised picture is such an input: its background is zero before the shift is
 * added, so kernels may leave most products out.
 *
 * Leaving out a product with a zero of x changes nothing but the sign of a zero, as long as the other factor is
 * finite. So every sum ends by adding +0, and starts from a number that is NaN if any other factor is not finite. */
#pragma once

#include "kernel/unit.h"

/* What the chains of an output or of a shard start from: `constant + shift * sum`; `sum` is that of the factors of x
 * that may be left out. 0 * sum is NaN if one of them is not finite. */
HD_BOTH real shifted_linear_start(real shift, real sum, real constant) {
  return REAL_FMA(0, sum, REAL_FMA(shift, sum, constant));
}

/* y: `W`: 16 chains over k of `s + w[k]` and the tree; `acc = fma(0, W, fma(shift, W, bias or 0))`; inputs k ascending:
 * `acc = fma(x[k], w[k], acc)`; then `+ 0`. With a ReLU: of that. */
HD_BOTH int64_t shifted_linear_count(const hd_geom *g) { return g->co; }
HD_BOTH real shifted_linear_first(const op_call *c, int64_t j) {
  const hd_geom *g = op_geom(c);
  const real *w = op_param(c, 1) + j * g->ci;
  OP_CHAINS16(sum, g->ci, s + w[i]);
  return shifted_linear_start(g->shifted_linear.shift, sum, c->in[2] ? op_param(c, 2)[j] : 0);
}
HD_BOTH real shifted_linear_last(const hd_geom *g, real acc) {
  const real y = acc + 0;
  return g->relu && y < 0 ? 0 : y;
}
HD_BOTH void shifted_linear_at(const op_call *c, int64_t n, int64_t j) {
  const hd_geom *g = op_geom(c);
  const real *x = op_in(c, 0, n), *w = op_param(c, 1) + j * g->ci;
  real acc = shifted_linear_first(c, j);
  for (int64_t k = 0; k < g->ci; k++)
    acc = REAL_FMA(x[k], w[k], acc);
  op_out(c, 0, n)[j] = shifted_linear_last(g, acc);
}

/* dw: per shard: `D`, as db's chain; `acc = fma(0, D, fma(shift, D, 0))`; samples ascending: `acc = fma(dy[j], x[k],
 * acc)`; then `+ 0` */
/* db: per shard: `acc = +0`; samples ascending: `acc = acc + dy[j]` */
HD_BOTH int64_t shifted_linear_dw_count(const hd_geom *g) { return (int64_t)g->co * g->ci + g->co; }
HD_BOTH void shifted_linear_dw_at(const op_call *c, int64_t shard, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int64_t weights = (int64_t)g->co * g->ci, j = i < weights ? i / g->ci : i - weights;
  const int output = i >= weights;
  if (!c->out[output])
    return;
  real sum = 0;
  for (int64_t n = op_row0(c, shard); n < op_row1(c, shard); n++)
    sum = sum + op_in(c, 1, n)[j];
  real acc = shifted_linear_start(g->shifted_linear.shift, sum, 0);
  for (int64_t n = op_row0(c, shard); n < op_row1(c, shard) && !output; n++)
    acc = REAL_FMA(op_in(c, 1, n)[j], op_in(c, 0, n)[i % g->ci], acc);
  op_sums(c, output, shard)[output ? j : i] = output ? sum : acc + 0;
}
