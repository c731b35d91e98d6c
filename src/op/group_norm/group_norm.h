/* group_norm: over the channels of a group and all pixels of a sample, with a weight and a bias for each channel. */
#pragma once

#include "op/norm.h"

/* y: as `layer_norm`, over the N elements of a group of channels as they lie in memory (pixel by pixel, its channels);
 * weight and bias of the channel */
HD_BOTH int64_t group_norm_count(const hd_geom *g) { return g->norm.groups; }
HD_BOTH void group_norm_at(const op_call *c, int64_t n, int64_t group) { norm_forward(c, n, group, op_geom(c)->ci); }

/* dw, db: per shard and channel: `dw = +0`, `db = +0`; samples ascending, pixels ascending: `dw = fma(dy, (x - mean) *
 * r, dw)`, `db = db + dy` */
HD_BOTH int64_t group_norm_dw_count(const hd_geom *g) { return g->ci; }
HD_BOTH void group_norm_dw_at(const op_call *c, int64_t k, int64_t channel) {
  const hd_geom *g = op_geom(c);
  real dw = 0, db = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++) {
    const real *x = op_in(c, 0, n), *dy = op_in(c, 1, n);
    real mean, r;
    norm_moments(g, x, channel / norm_channels(g), &mean, &r);
    for (int64_t i = channel; i < op_elems(g); i += g->ci) {
      dw = REAL_FMA(dy[i], (x[i] - mean) * r, dw);
      db = db + dy[i];
    }
  }
  if (c->out[0])
    op_sums(c, 0, k)[channel] = dw;
  if (c->out[1])
    op_sums(c, 1, k)[channel] = db;
}

/* dx: as `layer_norm`, over the group */
HD_BOTH int64_t group_norm_dx_count(const hd_geom *g) { return g->norm.groups; }
HD_BOTH void group_norm_dx_at(const op_call *c, int64_t n, int64_t group) {
  norm_backward(c, n, group, op_geom(c)->ci);
}
