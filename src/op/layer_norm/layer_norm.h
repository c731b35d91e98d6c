/* layer_norm: over all elements of a sample, with a weight and a bias for each. Sums run along memory in 16 chains and
 * their tree (OP_CHAINS16). */
#pragma once

#include "op/unit.h"

/* y: over a sample's N elements as they lie in memory: sum = 16 chains of additions and the tree, mean = `sum / N`;
 * square = 16 chains of `fma(d, d, s)` with `d = x - mean`, and the tree; `r = 1 / sqrt(square / N + eps)`; `fma((x -
 * mean) * r, weight, bias)` */
HD_BOTH void layer_norm_moments(const hd_geom *g, const real *x, real *mean_out, real *r_out) {
  const int64_t elems = op_elems(g);
  OP_CHAINS16(sum, elems, s + x[i]);
  const real mean = sum / (real)elems;
  OP_CHAINS16(square, elems, REAL_FMA(x[i] - mean, x[i] - mean, s));
  *mean_out = mean;
  *r_out = 1 / REAL_SQRT(square / (real)elems + g->eps);
}

HD_BOTH int64_t layer_norm_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_at(const op_call *c, int64_t n, int64_t unused) {
  const real *x = op_in(c, 0, n), *w = op_param(c, 1), *b = op_param(c, 2);
  real mean, r;
  layer_norm_moments(op_geom(c), x, &mean, &r);
  for (int64_t i = 0; i < op_elems(op_geom(c)); i++)
    op_out(c, 0, n)[i] = REAL_FMA((x[i] - mean) * r, w[i], b[i]);
}

/* dw, db: per shard: `dw = +0`, `db = +0`; samples ascending: `dw = fma(dy, (x - mean) * r, dw)`, `db = db + dy` */
HD_BOTH int64_t layer_norm_dw_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_dw_at(const op_call *c, int64_t k, int64_t unused) {
  const int64_t row0 = op_row0(c, k), elems = op_elems(op_geom(c));
  real *dw = c->out[0] ? op_sums(c, 0, k) : 0, *db = c->out[1] ? op_sums(c, 1, k) : 0;
  for (int64_t n = row0; n < op_row1(c, k); n++) {
    const real *x = op_in(c, 0, n), *dy = op_in(c, 1, n);
    real mean, r;
    layer_norm_moments(op_geom(c), x, &mean, &r);
    for (int64_t i = 0; dw && i < elems; i++)
      dw[i] = REAL_FMA(dy[i], (x[i] - mean) * r, n > row0 ? dw[i] : 0);
    for (int64_t i = 0; db && i < elems; i++)
      db[i] = (n > row0 ? db[i] : 0) + dy[i];
  }
}

/* dx: `h = dy * weight`; a = 16 chains of additions of h and the tree, `/ N`; b = 16 chains of `fma(h, (x - mean) * r,
 * s)` and the tree, `/ N`; `r * (h - fma((x - mean) * r, b, a))` */
HD_BOTH real layer_norm_slope(real h, real d, real r, real a, real b) { return r * (h - REAL_FMA(d * r, b, a)); }

HD_BOTH int64_t layer_norm_dx_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_dx_at(const op_call *c, int64_t n, int64_t unused) {
  const real *dy = op_in(c, 0, n), *w = op_param(c, 1), *x = op_in(c, 2, n);
  const int64_t elems = op_elems(op_geom(c));
  real mean, r;
  layer_norm_moments(op_geom(c), x, &mean, &r);
  OP_CHAINS16(sum, elems, s + dy[i] * w[i]);
  OP_CHAINS16(dot, elems, REAL_FMA(dy[i] * w[i], (x[i] - mean) * r, s));
  const real a = sum / (real)elems, b = dot / (real)elems;
  for (int64_t i = 0; i < elems; i++)
    op_out(c, 0, n)[i] = layer_norm_slope(dy[i] * w[i], x[i] - mean, r, a, b);
}
