/* linear: y = x * w + b, with an optional ReLU, and its gradients. */
#pragma once

#include "kernel/unit.h"

/* y: 16 chains over k of `fma(x[k], w[k], s)` and the tree; then `+ bias`, if there is one. With a ReLU: of that. */
HD_BOTH int64_t linear_count(const hd_geom *g) { return g->co; }
HD_BOTH void linear_at(const op_call *c, int64_t n, int64_t j) {
  const hd_geom *g = op_geom(c);
  const real *x = op_in(c, 0, n), *w = op_param(c, 1) + j * g->ci;
  OP_CHAINS16(sum, g->ci, REAL_FMA(x[i], w[i], s));
  const real y = c->in[2] ? sum + op_param(c, 2)[j] : sum;
  op_out(c, 0, n)[j] = g->relu && y < 0 ? 0 : y;
}

/* dx: `acc = +0`; outputs j ascending: `acc = fma(dy[j], w[j][k], acc)` */
HD_BOTH int64_t linear_dx_count(const hd_geom *g) { return g->ci; }
HD_BOTH void linear_dx_at(const op_call *c, int64_t n, int64_t k) {
  const hd_geom *g = op_geom(c);
  const real *dy = op_in(c, 0, n), *w = op_param(c, 1) + k;
  real acc = 0;
  for (int j = 0; j < g->co; j++)
    acc = REAL_FMA(dy[j], w[(int64_t)j * g->ci], acc);
  op_put_dx(c, n, k, acc);
}

/* dw: per shard: `acc = +0`; samples ascending: `acc = fma(dy[j], x[k], acc)` */
/* db: per shard: `acc = +0`; samples ascending: `acc = acc + dy[j]` */
HD_BOTH int64_t linear_dw_count(const hd_geom *g) { return (int64_t)g->co * g->ci + g->co; }
HD_BOTH void linear_dw_at(const op_call *c, int64_t k, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int64_t weights = (int64_t)g->co * g->ci, j = i < weights ? i / g->ci : i - weights;
  const int output = i >= weights;
  if (!c->out[output])
    return;
  real acc = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++)
    acc = output ? acc + op_in(c, 1, n)[j] : REAL_FMA(op_in(c, 1, n)[j], op_in(c, 0, n)[i % g->ci], acc);
  op_sums(c, output, k)[output ? j : i] = acc;
}
