/* Normalisations on the GPU: a thread computes an element, or the statistics of a channel of a shard, or a sample.
 * Chains as in ref_batch_norm.c and ref_layer_norm.c. */
#ifndef HD_KERNEL_CUDA_NORM_H
#define HD_KERNEL_CUDA_NORM_H

#include "kernel/cuda/cuda_call.h"

HD_BOTH int64_t cuda_pixels(const hd_geom *g) { return (int64_t)g->hi * g->wi; }

/* ---- Sums of a channel over a shard ---- */

HD_BOTH void cuda_channel_stats(const hd_cuda_call *c, int64_t k, int64_t channel, float *mean_out, float *m2_out) {
  const int64_t pixels = cuda_pixels(&c->g), row0 = cuda_row0(c, k), row1 = cuda_row1(c, k);
  float sum = 0, m2 = 0;
  for (int64_t n = row0; n < row1; n++)
    for (int64_t p = 0; p < pixels; p++)
      sum = sum + cuda_in(c, 0, n)[p * c->g.ci + channel];
  const float mean = sum / (float)((row1 - row0) * pixels);
  for (int64_t n = row0; n < row1; n++)
    for (int64_t p = 0; p < pixels; p++) {
      const float d = cuda_in(c, 0, n)[p * c->g.ci + channel] - mean;
      m2 = fmaf(d, d, m2);
    }
  *mean_out = mean;
  *m2_out = m2;
}

HD_BOTH void cuda_channel_gradients(const hd_cuda_call *c, int64_t k, int64_t channel, int x_slot, int dy_slot,
                                    float mean, float r, float *dw_out, float *db_out) {
  float dw = 0, db = 0;
  for (int64_t n = cuda_row0(c, k); n < cuda_row1(c, k); n++)
    for (int64_t p = 0; p < cuda_pixels(&c->g); p++) {
      const float xhat = (cuda_in(c, x_slot, n)[p * c->g.ci + channel] - mean) * r;
      const float dy = cuda_in(c, dy_slot, n)[p * c->g.ci + channel];
      dw = fmaf(dy, xhat, dw);
      db = db + dy;
    }
  *dw_out = dw;
  *db_out = db;
}

HD_BOTH float cuda_norm_rate(const hd_geom *g, float var) { return 1 / sqrtf(var + g->eps); }

HD_BOTH float cuda_norm_dx(float dy, float x, float w, float mean, float r, float dw, float db, float count) {
  const float xhat = (x - mean) * r;
  return (w * r) * (dy - fmaf(xhat, dw / count, db / count));
}

/* ---- Over the batch ---- */

HD_BOTH int64_t batch_stats_count(const hd_geom *g) { return g->ci; }
HD_BOTH void batch_stats_at(const hd_cuda_call *c, int64_t k, int64_t channel) {
  cuda_channel_stats(c, k, channel, cuda_sums(c, 0, k) + channel, cuda_sums(c, 1, k) + channel);
}

HD_BOTH int64_t batch_norm_count(const hd_geom *g) { return cuda_elems(g); }
HD_BOTH void batch_norm_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const int64_t channel = i % c->g.ci;
  const float scale = cuda_param(c, 1)[channel] / sqrtf(cuda_param(c, 4)[channel] + c->g.eps);
  cuda_out(c, 0, n)[i] = fmaf(cuda_in(c, 0, n)[i] - cuda_param(c, 3)[channel], scale, cuda_param(c, 2)[channel]);
}

/* The statistics may be the shard's, in the slot of its first row; the batch's have no stride. */
HD_BOTH int64_t batch_norm_dw_count(const hd_geom *g) { return g->ci; }
HD_BOTH void batch_norm_dw_at(const hd_cuda_call *c, int64_t k, int64_t channel) {
  const float mean = cuda_in(c, 2, cuda_row0(c, k))[channel], var = cuda_in(c, 3, cuda_row0(c, k))[channel];
  float dw, db;
  cuda_channel_gradients(c, k, channel, 0, 1, mean, cuda_norm_rate(&c->g, var), &dw, &db);
  if (c->out[0])
    cuda_sums(c, 0, k)[channel] = dw;
  if (c->out[1])
    cuda_sums(c, 1, k)[channel] = db;
}

HD_BOTH int64_t batch_norm_dx_count(const hd_geom *g) { return cuda_elems(g); }
HD_BOTH void batch_norm_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const int64_t channel = i % c->g.ci;
  cuda_out(c, 0, n)[i] =
      cuda_norm_dx(cuda_in(c, 0, n)[i], cuda_in(c, 2, n)[i], cuda_param(c, 1)[channel], cuda_param(c, 3)[channel],
                   cuda_norm_rate(&c->g, cuda_param(c, 4)[channel]), cuda_param(c, 5)[channel],
                   cuda_param(c, 6)[channel], (float)(c->step->samples * cuda_pixels(&c->g)));
}

/* ---- Over a shard ---- */

HD_BOTH int64_t shard_norm_count(const hd_geom *g) { return g->ci; }
HD_BOTH void shard_norm_at(const hd_cuda_call *c, int64_t k, int64_t channel) {
  const int64_t row0 = cuda_row0(c, k), row1 = cuda_row1(c, k), pixels = cuda_pixels(&c->g);
  float mean, m2;
  cuda_channel_stats(c, k, channel, &mean, &m2);
  const float var = m2 / (float)((row1 - row0) * pixels);
  const float scale = cuda_param(c, 1)[channel] / sqrtf(var + c->g.eps), bias = cuda_param(c, 2)[channel];
  cuda_out(c, 1, row0)[channel] = mean;
  cuda_out(c, 2, row0)[channel] = var;
  for (int64_t n = row0; n < row1; n++)
    for (int64_t p = 0; p < pixels; p++) {
      const int64_t i = p * c->g.ci + channel;
      cuda_out(c, 0, n)[i] = fmaf(cuda_in(c, 0, n)[i] - mean, scale, bias);
    }
}

HD_BOTH int64_t shard_norm_dx_count(const hd_geom *g) { return g->ci; }
HD_BOTH void shard_norm_dx_at(const hd_cuda_call *c, int64_t k, int64_t channel) {
  const int64_t row0 = cuda_row0(c, k), row1 = cuda_row1(c, k), pixels = cuda_pixels(&c->g);
  const float mean = cuda_in(c, 3, row0)[channel], r = cuda_norm_rate(&c->g, cuda_in(c, 4, row0)[channel]);
  const float w = cuda_param(c, 1)[channel];
  float dw, db;
  cuda_channel_gradients(c, k, channel, 2, 0, mean, r, &dw, &db);
  for (int64_t n = row0; n < row1; n++)
    for (int64_t p = 0; p < pixels; p++) {
      const int64_t i = p * c->g.ci + channel;
      cuda_out(c, 0, n)[i] =
          cuda_norm_dx(cuda_in(c, 0, n)[i], cuda_in(c, 2, n)[i], w, mean, r, dw, db, (float)((row1 - row0) * pixels));
    }
}

/* ---- Over a sample ---- */

HD_BOTH void cuda_layer_moments(const hd_geom *g, const float *x, float *mean_out, float *r_out) {
  const int64_t elems = cuda_elems(g);
  HD_CHAINS16(sum, elems, s + x[i]);
  const float mean = sum / (float)elems;
  HD_CHAINS16(square, elems, fmaf(x[i] - mean, x[i] - mean, s));
  *mean_out = mean;
  *r_out = 1 / sqrtf(square / (float)elems + g->eps);
}

HD_BOTH int64_t layer_norm_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_at(const hd_cuda_call *c, int64_t n, int64_t unused) {
  const float *x = cuda_in(c, 0, n), *w = cuda_param(c, 1), *b = cuda_param(c, 2);
  float mean, r;
  cuda_layer_moments(&c->g, x, &mean, &r);
  for (int64_t i = 0; i < cuda_elems(&c->g); i++)
    cuda_out(c, 0, n)[i] = fmaf((x[i] - mean) * r, w[i], b[i]);
}

HD_BOTH int64_t layer_norm_dw_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_dw_at(const hd_cuda_call *c, int64_t k, int64_t unused) {
  const int64_t row0 = cuda_row0(c, k);
  float *dw = c->out[0] ? cuda_sums(c, 0, k) : 0, *db = c->out[1] ? cuda_sums(c, 1, k) : 0;
  for (int64_t n = row0; n < cuda_row1(c, k); n++) {
    const float *x = cuda_in(c, 0, n), *dy = cuda_in(c, 1, n);
    float mean, r;
    cuda_layer_moments(&c->g, x, &mean, &r);
    for (int64_t i = 0; dw && i < cuda_elems(&c->g); i++)
      dw[i] = fmaf(dy[i], (x[i] - mean) * r, n > row0 ? dw[i] : 0);
    for (int64_t i = 0; db && i < cuda_elems(&c->g); i++)
      db[i] = (n > row0 ? db[i] : 0) + dy[i];
  }
}

/* h = dy * w; d = x - mean; a and b: means of h and of h * xhat. */
HD_BOTH float cuda_layer_norm_dx(float h, float d, float r, float a, float b) { return r * (h - fmaf(d * r, b, a)); }

HD_BOTH int64_t layer_norm_dx_count(const hd_geom *g) { return 1; }
HD_BOTH void layer_norm_dx_at(const hd_cuda_call *c, int64_t n, int64_t unused) {
  const float *dy = cuda_in(c, 0, n), *w = cuda_param(c, 1), *x = cuda_in(c, 2, n);
  const int64_t elems = cuda_elems(&c->g);
  float mean, r;
  cuda_layer_moments(&c->g, x, &mean, &r);
  HD_CHAINS16(sum, elems, s + dy[i] * w[i]);
  HD_CHAINS16(dot, elems, fmaf(dy[i] * w[i], (x[i] - mean) * r, s));
  const float a = sum / (float)elems, b = dot / (float)elems;
  for (int64_t i = 0; i < elems; i++)
    cuda_out(c, 0, n)[i] = cuda_layer_norm_dx(dy[i] * w[i], x[i] - mean, r, a, b);
}

#endif
