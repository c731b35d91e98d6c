/* group_norm: over the channels of a group and all pixels of a sample, with a weight and a bias for each channel. Sums
 * run over the elements of a group as they lie in memory, in 16 chains and their tree (OP_CHAINS16). */
#pragma once

#include "op/unit.h"

HD_BOTH int group_norm_channels(const hd_geom *g) { return g->ci / g->groups; }
HD_BOTH int64_t group_norm_elems(const hd_geom *g) { return op_pixels(g) * group_norm_channels(g); }

/* The place in a sample of element i of a group: pixel by pixel, its channels. */
HD_BOTH int64_t group_norm_place(const hd_geom *g, int64_t group, int64_t i) {
  const int64_t channels = group_norm_channels(g);
  return i / channels * g->ci + group * channels + i % channels;
}

/* y: as `layer_norm`, over the N elements of a group of channels as they lie in memory (pixel by pixel, its channels);
 * weight and bias of the channel */
HD_BOTH void group_norm_moments(const hd_geom *g, const real *x, int64_t group, real *mean_out, real *r_out) {
  const int64_t elems = group_norm_elems(g);
  OP_CHAINS16(sum, elems, s + x[group_norm_place(g, group, i)]);
  const real mean = sum / (real)elems;
  OP_CHAINS16(square, elems,
              REAL_FMA(x[group_norm_place(g, group, i)] - mean, x[group_norm_place(g, group, i)] - mean, s));
  *mean_out = mean;
  *r_out = 1 / REAL_SQRT(square / (real)elems + g->eps);
}

HD_BOTH int64_t group_norm_count(const hd_geom *g) { return g->groups; }
HD_BOTH void group_norm_at(const op_call *c, int64_t n, int64_t group) {
  const hd_geom *g = op_geom(c);
  const real *x = op_in(c, 0, n);
  real mean, r;
  group_norm_moments(g, x, group, &mean, &r);
  for (int64_t i = 0; i < group_norm_elems(g); i++) {
    const int64_t at = group_norm_place(g, group, i), channel = at % g->ci;
    op_out(c, 0, n)[at] = REAL_FMA((x[at] - mean) * r, op_param(c, 1)[channel], op_param(c, 2)[channel]);
  }
}

/* dw, db: per shard and channel: `dw = +0`, `db = +0`; samples ascending, pixels ascending: `dw = fma(dy, (x - mean) *
 * r, dw)`, `db = db + dy` */
HD_BOTH int64_t group_norm_dw_count(const hd_geom *g) { return g->ci; }
HD_BOTH void group_norm_dw_at(const op_call *c, int64_t k, int64_t channel) {
  const hd_geom *g = op_geom(c);
  real dw = 0, db = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++) {
    const real *x = op_in(c, 0, n), *dy = op_in(c, 1, n);
    real mean, r;
    group_norm_moments(g, x, channel / group_norm_channels(g), &mean, &r);
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
HD_BOTH int64_t group_norm_dx_count(const hd_geom *g) { return g->groups; }
HD_BOTH void group_norm_dx_at(const op_call *c, int64_t n, int64_t group) {
  const hd_geom *g = op_geom(c);
  const real *dy = op_in(c, 0, n), *w = op_param(c, 1), *x = op_in(c, 2, n);
  const int64_t elems = group_norm_elems(g);
  real mean, r;
  group_norm_moments(g, x, group, &mean, &r);
  OP_CHAINS16(sum, elems, s + dy[group_norm_place(g, group, i)] * w[group_norm_place(g, group, i) % g->ci]);
  OP_CHAINS16(dot, elems,
              REAL_FMA(dy[group_norm_place(g, group, i)] * w[group_norm_place(g, group, i) % g->ci],
                       (x[group_norm_place(g, group, i)] - mean) * r, s));
  const real a = sum / (real)elems, b = dot / (real)elems;
  for (int64_t i = 0; i < elems; i++) {
    const int64_t at = group_norm_place(g, group, i);
    op_out(c, 0, n)[at] = r * (dy[at] * w[at % g->ci] - REAL_FMA((x[at] - mean) * r, b, a));
  }
}
