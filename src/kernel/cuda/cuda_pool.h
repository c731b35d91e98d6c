/* Pooling on the GPU. Gradients gather over the windows that hold an element, ascending: the chains of ref_pool.c,
 * which scatters. */
#ifndef HD_KERNEL_CUDA_POOL_H
#define HD_KERNEL_CUDA_POOL_H

#include "kernel/cuda/cuda_conv.h"

HD_BOTH int64_t max_pool2d_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->ci; }

HD_BOTH void max_pool2d_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  const int ch = (int)(i % g->ci), oy = (int)(i / g->ci) / g->wo, ox = (int)(i / g->ci) % g->wo;
  const float *x = cuda_in(c, 0, n);
  int taken = -1;
  float best = 0;
  for (int p = 0; p < g->kh * g->kw; p++) {
    const int row = oy * g->sh + p / g->kw - g->ph, col = ox * g->sw + p % g->kw - g->pw;
    if (row < 0 || row >= g->hi || col < 0 || col >= g->wi)
      continue;
    const float v = x[((int64_t)row * g->wi + col) * g->ci + ch];
    if (taken < 0 || cuda_takes_over(v, best)) {
      best = v;
      taken = p;
    }
  }
  cuda_out(c, 0, n)[i] = best;
  if (c->out[1])
    ((uint8_t *)c->out[1])[n * c->out_stride[1] + i] = (uint8_t)taken;
}

HD_BOTH int64_t max_pool2d_dx_count(const hd_geom *g) { return cuda_elems(g); }

HD_BOTH void max_pool2d_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  const int ch = (int)(i % g->ci), y = (int)(i / g->ci) / g->wi, x = (int)(i / g->ci) % g->wi;
  const float *dy = cuda_in(c, 0, n);
  const uint8_t *argmax = cuda_bytes_in(c, 1, n);
  const int oy1 = cuda_last_reach(y + g->ph, g->sh, g->ho), ox1 = cuda_last_reach(x + g->pw, g->sw, g->wo);
  float acc = 0;
  for (int oy = cuda_first_reach(y + g->ph, g->kh, g->sh); oy <= oy1; oy++)
    for (int ox = cuda_first_reach(x + g->pw, g->kw, g->sw); ox <= ox1; ox++) {
      const int64_t at = ((int64_t)oy * g->wo + ox) * g->ci + ch;
      if (argmax[at] == (y + g->ph - oy * g->sh) * g->kw + x + g->pw - ox * g->sw)
        acc = acc + dy[at];
    }
  cuda_out(c, 0, n)[i] = acc;
}

/* The divisor of the window at (oy, ox). */
HD_BOTH float cuda_pool_divisor(const hd_geom *g, int oy, int ox) {
  int rows = g->kh, columns = g->kw;
  if (!g->count_include_pad) {
    const int top = oy * g->sh - g->ph, left = ox * g->sw - g->pw;
    rows = (top + g->kh < g->hi ? top + g->kh : g->hi) - (top > 0 ? top : 0);
    columns = (left + g->kw < g->wi ? left + g->kw : g->wi) - (left > 0 ? left : 0);
  }
  return (float)(rows * columns);
}

HD_BOTH int64_t avg_pool2d_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->ci; }

HD_BOTH void avg_pool2d_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  const int ch = (int)(i % g->ci), oy = (int)(i / g->ci) / g->wo, ox = (int)(i / g->ci) % g->wo;
  float acc = 0;
  for (int p = 0; p < g->kh * g->kw; p++) {
    const int row = oy * g->sh + p / g->kw - g->ph, col = ox * g->sw + p % g->kw - g->pw;
    if (row >= 0 && row < g->hi && col >= 0 && col < g->wi)
      acc = acc + cuda_in(c, 0, n)[((int64_t)row * g->wi + col) * g->ci + ch];
  }
  cuda_out(c, 0, n)[i] = acc / cuda_pool_divisor(g, oy, ox);
}

HD_BOTH int64_t avg_pool2d_dx_count(const hd_geom *g) { return cuda_elems(g); }

HD_BOTH void avg_pool2d_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {
  const hd_geom *g = &c->g;
  const int ch = (int)(i % g->ci), y = (int)(i / g->ci) / g->wi, x = (int)(i / g->ci) % g->wi;
  const int oy1 = cuda_last_reach(y + g->ph, g->sh, g->ho), ox1 = cuda_last_reach(x + g->pw, g->sw, g->wo);
  float acc = 0;
  for (int oy = cuda_first_reach(y + g->ph, g->kh, g->sh); oy <= oy1; oy++)
    for (int ox = cuda_first_reach(x + g->pw, g->kw, g->sw); ox <= ox1; ox++)
      acc = acc + cuda_in(c, 0, n)[((int64_t)oy * g->wo + ox) * g->ci + ch] / cuda_pool_divisor(g, oy, ox);
  cuda_out(c, 0, n)[i] = acc;
}

/* A thread has all pixels of a channel, so that several loads are in flight. */
HD_BOTH int64_t global_avg_pool2d_count(const hd_geom *g) { return g->ci; }
HD_BOTH void global_avg_pool2d_at(const hd_cuda_call *c, int64_t n, int64_t channel) {
  const int pixels = c->g.hi * c->g.wi, channels = c->g.ci;
  const float *x = cuda_in(c, 0, n) + channel;
  float acc = 0;
  HD_UNROLL_BY_8
  for (int p = 0; p < pixels; p++)
    acc = acc + x[(int64_t)p * channels];
  cuda_out(c, 0, n)[channel] = acc / (float)pixels;
}

#endif
