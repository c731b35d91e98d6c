/* layer_norm: over all elements of a sample, with a weight and a bias for each. */
#pragma once

#include "op/norm.h"

/* y: over a sample's N elements as they lie in memory: sum = 16 chains of additions and the tree, mean = `sum / N`;
 * square = 16 chains of `fma(d, d, s)` with `d = x - mean`, and the tree; `r = 1 / sqrt(square / N + eps)`; `fma((x -
 * mean) * r, weight, bias)` */
HD_BOTH int64_t layer_norm_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_at(const op_call *c, int64_t n, int64_t unused) { norm_forward(c, n, 0, op_elems(op_geom(c))); }

/* dw, db: per shard: `dw = +0`, `db = +0`; samples ascending: `dw = fma(dy, (x - mean) * r, dw)`, `db = db + dy` */
HD_BOTH int64_t layer_norm_dw_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_dw_at(const op_call *c, int64_t k, int64_t unused) {
  const int64_t row0 = op_row0(c, k), elems = op_elems(op_geom(c));
  real *dw = c->out[0] ? op_sums(c, 0, k) : 0, *db = c->out[1] ? op_sums(c, 1, k) : 0;
  for (int64_t n = row0; n < op_row1(c, k); n++) {
    const real *x = op_in(c, 0, n), *dy = op_in(c, 1, n);
    real mean, r;
    norm_moments(op_geom(c), x, 0, &mean, &r);
    for (int64_t i = 0; dw && i < elems; i++)
      dw[i] = REAL_FMA(dy[i], (x[i] - mean) * r, n > row0 ? dw[i] : 0);
    for (int64_t i = 0; db && i < elems; i++)
      db[i] = (n > row0 ? db[i] : 0) + dy[i];
  }
}

/* dx: `h = dy * weight`; a = 16 chains of additions of h and the tree, `/ N`; b = 16 chains of `fma(h, (x - mean) * r,
 * s)` and the tree, `/ N`; `r * (h - fma((x - mean) * r, b, a))` */
HD_BOTH int64_t layer_norm_dx_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_dx_at(const op_call *c, int64_t n, int64_t unused) {
  norm_backward(c, n, 0, op_elems(op_geom(c)));
}
