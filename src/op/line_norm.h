/* Norms over the channels of each pixel: layer_norm2d, and rms_norm, which takes no mean off. Sums along the channels
 * are OP_CHAINS16. */
#pragma once

#include "kernel/unit.h"

typedef struct line_moments {
  real mean, r;
} line_moments;

/* With `centred`: mean = the sum of x / C, else 0; d = x - mean; r = 1 / sqrt(the sum of fma(d, d) / C + eps) */
HD_BOTH line_moments line_moments_of(const hd_geom *g, const real *x, int centred) {
  line_moments m = {0, 0};
  if (centred) {
    OP_CHAINS16(sum, g->ci, s + x[i]);
    m.mean = sum / (real)g->ci;
  }
  OP_CHAINS16(square, g->ci, REAL_FMA(x[i] - m.mean, x[i] - m.mean, s));
  m.r = 1 / REAL_SQRT(square / (real)g->ci + g->norm.eps);
  return m;
}

HD_BOTH void line_norm_forward(const op_call *c, int64_t n, int64_t pixel, int centred) {
  const hd_geom *g = op_geom(c);
  const real *x = op_in(c, 0, n) + pixel * g->ci, *w = op_param(c, 1);
  real *y = op_out(c, 0, n) + pixel * g->ci;
  const line_moments m = line_moments_of(g, x, centred);
  for (int i = 0; i < g->ci; i++)
    y[i] = centred ? REAL_FMA((x[i] - m.mean) * m.r, w[i], op_param(c, 2)[i]) : (x[i] - m.mean) * m.r * w[i];
}

/* h = dy * w; a = with `centred` the sum of h / C, else 0; b = the sum of fma(h, xhat) / C; dx = r * (h - fma(xhat, b,
 * a)) */
HD_BOTH void line_norm_backward(const op_call *c, int64_t n, int64_t pixel, int centred) {
  const hd_geom *g = op_geom(c);
  const real *dy = op_in(c, 0, n) + pixel * g->ci, *w = op_param(c, 1), *x = op_in(c, 2, n) + pixel * g->ci;
  real *dx = op_out(c, 0, n) + pixel * g->ci, a = 0;
  const line_moments m = line_moments_of(g, x, centred);
  if (centred) {
    OP_CHAINS16(sum, g->ci, s + dy[i] * w[i]);
    a = sum / (real)g->ci;
  }
  OP_CHAINS16(dot, g->ci, REAL_FMA(dy[i] * w[i], (x[i] - m.mean) * m.r, s));
  for (int i = 0; i < g->ci; i++)
    dx[i] = m.r * (dy[i] * w[i] - REAL_FMA((x[i] - m.mean) * m.r, dot / (real)g->ci, a));
}

/* Per shard and channel, samples ascending, pixels ascending: dw = fma(dy, xhat, dw), db = db + dy. */
HD_BOTH void line_norm_gradient(const op_call *c, int64_t k, int64_t channel, int centred) {
  const hd_geom *g = op_geom(c);
  real dw = 0, db = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++)
    for (int64_t first = 0; first < op_elems(g); first += g->ci) {
      const real *x = op_in(c, 0, n) + first, dy = op_in(c, 1, n)[first + channel];
      const line_moments m = line_moments_of(g, x, centred);
      dw = REAL_FMA(dy, (x[channel] - m.mean) * m.r, dw);
      db = db + dy;
    }
  if (c->out[0])
    op_sums(c, 0, k)[channel] = dw;
  if (c->out[1])
    op_sums(c, 1, k)[channel] = db;
}

#define OP_LINE_NORM(name, centred)                                                                                    \
  HD_BOTH int64_t name##_count(const hd_geom *g) { return op_pixels(g); }                                              \
  HD_BOTH int64_t name##_dx_count(const hd_geom *g) { return op_pixels(g); }                                           \
  HD_BOTH int64_t name##_dw_count(const hd_geom *g) { return g->ci; }                                                  \
  HD_BOTH void name##_at(const op_call *c, int64_t n, int64_t i) { line_norm_forward(c, n, i, centred); }              \
  HD_BOTH void name##_dx_at(const op_call *c, int64_t n, int64_t i) { line_norm_backward(c, n, i, centred); }          \
  HD_BOTH void name##_dw_at(const op_call *c, int64_t k, int64_t i) { line_norm_gradient(c, k, i, centred); }
