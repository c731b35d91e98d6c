/* batch_norm: the statistics of a shard, the normalisation of a batch, its gradients; and the same over the shard.
 * Channels are fastest. */
#pragma once

#include "op/norm.h"

/* Per channel, samples ascending, pixels ascending: sum = sum + x from +0; mean = sum / count; then, in the same order,
 * d = x - mean, m2 = fma(d, d, m2) from +0. */
HD_BOTH void batch_norm_stats(const op_call *c, int64_t k, int64_t channel, real *mean_out, real *m2_out) {
  const hd_geom *g = op_geom(c);
  const int64_t pixels = op_pixels(g), row0 = op_row0(c, k), row1 = op_row1(c, k);
  real sum = 0, m2 = 0;
  for (int64_t n = row0; n < row1; n++)
    for (int64_t p = 0; p < pixels; p++)
      sum = sum + op_in(c, 0, n)[p * g->ci + channel];
  const real mean = sum / (real)((row1 - row0) * pixels);
  for (int64_t n = row0; n < row1; n++)
    for (int64_t p = 0; p < pixels; p++) {
      const real d = op_in(c, 0, n)[p * g->ci + channel] - mean;
      m2 = REAL_FMA(d, d, m2);
    }
  *mean_out = mean;
  *m2_out = m2;
}

/* dw, db: per shard, with `r = 1 / sqrt(var + eps)`: `dw = +0`, `db = +0`; samples ascending, pixels ascending: `dw =
 * fma(dy, (x - mean) * r, dw)`, `db = db + dy` */
HD_BOTH void batch_norm_sums(const op_call *c, int64_t k, int64_t channel, int x_slot, int dy_slot, real mean, real r,
                             real *dw_out, real *db_out) {
  const hd_geom *g = op_geom(c);
  real dw = 0, db = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++)
    for (int64_t p = 0; p < op_pixels(g); p++) {
      const real xhat = (op_in(c, x_slot, n)[p * g->ci + channel] - mean) * r;
      const real dy = op_in(c, dy_slot, n)[p * g->ci + channel];
      dw = REAL_FMA(dy, xhat, dw);
      db = db + dy;
    }
  *dw_out = dw;
  *db_out = db;
}

/* y: `fma(x - mean, weight / sqrt(var + eps), bias)`; in training mean and variance are the batch's (below), with
 * `stats: shard` the shard's, in evaluation the running ones */
HD_BOTH real batch_norm_scale(const hd_geom *g, real w, real var) { return w / REAL_SQRT(var + g->norm.eps); }

/* dx: with N samples * pixels in the batch and the sums dw, db of all its shards (`stats: shard`: in the shard, and its
 * sums): `(weight * r) * (dy - fma((x - mean) * r, dw / N, db / N))` */
HD_BOTH real batch_norm_slope(real dy, real x, real w, real mean, real r, real dw, real db, real count) {
  const real xhat = (x - mean) * r;
  return (w * r) * (dy - REAL_FMA(xhat, dw / count, db / count));
}

/* ---- Over the batch ---- */

HD_BOTH int64_t batch_stats_count(const hd_geom *g) { return g->ci; }
HD_BOTH void batch_stats_at(const op_call *c, int64_t k, int64_t channel) {
  batch_norm_stats(c, k, channel, op_sums(c, 0, k) + channel, op_sums(c, 1, k) + channel);
}

HD_BOTH int64_t batch_norm_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void batch_norm_at(const op_call *c, int64_t n, int64_t i) {
  const int64_t channel = i % op_geom(c)->ci;
  const real scale = batch_norm_scale(op_geom(c), op_param(c, 1)[channel], op_param(c, 4)[channel]);
  op_out(c, 0, n)[i] = REAL_FMA(op_in(c, 0, n)[i] - op_param(c, 3)[channel], scale, op_param(c, 2)[channel]);
}

/* The statistics may be the shard's, in the slot of its first row; the batch's have no stride. */
HD_BOTH int64_t batch_norm_dw_count(const hd_geom *g) { return g->ci; }
HD_BOTH void batch_norm_dw_at(const op_call *c, int64_t k, int64_t channel) {
  const real mean = op_in(c, 2, op_row0(c, k))[channel], var = op_in(c, 3, op_row0(c, k))[channel];
  real dw, db;
  batch_norm_sums(c, k, channel, 0, 1, mean, norm_rate(op_geom(c), var), &dw, &db);
  if (c->out[0])
    op_sums(c, 0, k)[channel] = dw;
  if (c->out[1])
    op_sums(c, 1, k)[channel] = db;
}

HD_BOTH int64_t batch_norm_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void batch_norm_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int64_t channel = i % g->ci;
  op_out(c, 0, n)[i] =
      batch_norm_slope(op_in(c, 0, n)[i], op_in(c, 2, n)[i], op_param(c, 1)[channel], op_param(c, 3)[channel],
                       norm_rate(g, op_param(c, 4)[channel]), op_param(c, 5)[channel], op_param(c, 6)[channel],
                       (real)(op_batch_samples(c) * op_pixels(g)));
}

/* ---- Over the shard: mean and variance are outputs, in the slot of the first row ---- */

HD_BOTH int64_t shard_norm_count(const hd_geom *g) { return g->ci; }
HD_BOTH void shard_norm_at(const op_call *c, int64_t k, int64_t channel) {
  const hd_geom *g = op_geom(c);
  const int64_t row0 = op_row0(c, k), row1 = op_row1(c, k), pixels = op_pixels(g);
  real mean, m2;
  batch_norm_stats(c, k, channel, &mean, &m2);
  const real var = m2 / (real)((row1 - row0) * pixels), bias = op_param(c, 2)[channel];
  const real scale = batch_norm_scale(g, op_param(c, 1)[channel], var);
  op_out(c, 1, row0)[channel] = mean;
  op_out(c, 2, row0)[channel] = var;
  for (int64_t n = row0; n < row1; n++)
    for (int64_t i = channel; i < op_elems(g); i += g->ci)
      op_out(c, 0, n)[i] = REAL_FMA(op_in(c, 0, n)[i] - mean, scale, bias);
}

HD_BOTH int64_t shard_norm_dx_count(const hd_geom *g) { return g->ci; }
HD_BOTH void shard_norm_dx_at(const op_call *c, int64_t k, int64_t channel) {
  const hd_geom *g = op_geom(c);
  const int64_t row0 = op_row0(c, k), row1 = op_row1(c, k);
  const real mean = op_in(c, 3, row0)[channel], r = norm_rate(g, op_in(c, 4, row0)[channel]);
  const real w = op_param(c, 1)[channel], count = (real)((row1 - row0) * op_pixels(g));
  real dw, db;
  batch_norm_sums(c, k, channel, 2, 0, mean, r, &dw, &db);
  for (int64_t n = row0; n < row1; n++)
    for (int64_t i = channel; i < op_elems(g); i += g->ci)
      op_out(c, 0, n)[i] = batch_norm_slope(op_in(c, 0, n)[i], op_in(c, 2, n)[i], w, mean, r, dw, db, count);
}
