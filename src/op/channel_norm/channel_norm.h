/* channel_norm: over the channels of each place, with a weight and a bias for each channel. */
#pragma once

#include "op/norm.h"

HD_BOTH void channel_moments(const hd_geom *g, const real *x, real *mean_out, real *r_out) {
  OP_CHAINS16(sum, g->ci, s + x[i]);
  const real mean = sum / (real)g->ci;
  OP_CHAINS16(square, g->ci, REAL_FMA(x[i] - mean, x[i] - mean, s));
  *mean_out = mean;
  *r_out = norm_rate(g, square / (real)g->ci);
}

/* y: over the C channels of each place: sum = 16 chains of additions and the tree, mean = `sum / C`; square = 16 chains
 * of `fma(d, d, s)` with `d = x - mean`, and the tree; `r = 1 / sqrt(square / C + eps)`; `fma((x - mean) * r, weight,
 * bias)` */
HD_BOTH int64_t channel_norm_count(const hd_geom *g) { return op_pixels(g); }
HD_BOTH void channel_norm_at(const op_call *c, int64_t n, int64_t place) {
  const int channels = op_geom(c)->ci;
  const real *x = op_in(c, 0, n) + place * channels;
  real mean, r;
  channel_moments(op_geom(c), x, &mean, &r);
  for (int i = 0; i < channels; i++)
    op_out(c, 0, n)[place * channels + i] = REAL_FMA((x[i] - mean) * r, op_param(c, 1)[i], op_param(c, 2)[i]);
}

/* dx: `h = dy * weight`; a = 16 chains of additions of h and the tree, `/ C`; b = 16 chains of `fma(h, (x - mean) * r,
 * s)` and the tree, `/ C`; `r * (h - fma((x - mean) * r, b, a))` */
HD_BOTH int64_t channel_norm_dx_count(const hd_geom *g) { return op_pixels(g); }
HD_BOTH void channel_norm_dx_at(const op_call *c, int64_t n, int64_t place) {
  const int channels = op_geom(c)->ci;
  const real *dy = op_in(c, 0, n) + place * channels, *w = op_param(c, 1), *x = op_in(c, 2, n) + place * channels;
  real mean, r;
  channel_moments(op_geom(c), x, &mean, &r);
  OP_CHAINS16(sum, channels, s + dy[i] * w[i]);
  OP_CHAINS16(dot, channels, REAL_FMA(dy[i] * w[i], (x[i] - mean) * r, s));
  for (int i = 0; i < channels; i++)
    op_put_dx(c, n, place * channels + i,
              norm_slope(dy[i] * w[i], x[i] - mean, r, sum / (real)channels, dot / (real)channels));
}

/* dw, db: per shard: `dw = +0`, `db = +0`; samples ascending, places of a sample in order: `dw = fma(dy, (x - mean) *
 * r, dw)`, `db = db + dy` */
HD_BOTH int64_t channel_norm_dw_count(const hd_geom *g) { return 1; }
HD_BOTH void channel_norm_dw_at(const op_call *c, int64_t k, int64_t unused) {
  const int channels = op_geom(c)->ci;
  real *dw = c->out[0] ? op_sums(c, 0, k) : 0, *db = c->out[1] ? op_sums(c, 1, k) : 0;
  for (int i = 0; i < channels; i++) {
    if (dw)
      dw[i] = 0;
    if (db)
      db[i] = 0;
  }
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++)
    for (int64_t place = 0; place < op_pixels(op_geom(c)); place++) {
      const real *x = op_in(c, 0, n) + place * channels, *dy = op_in(c, 1, n) + place * channels;
      real mean, r;
      channel_moments(op_geom(c), x, &mean, &r);
      for (int i = 0; i < channels; i++) {
        if (dw)
          dw[i] = REAL_FMA(dy[i], (x[i] - mean) * r, dw[i]);
        if (db)
          db[i] = db[i] + dy[i];
      }
    }
}
