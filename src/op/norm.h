/* Norms of a sample over groups of its channels and all pixels. layer_norm has one group, and a weight and a bias for
 * each element; group_norm has these for each channel: of element i they are number i mod `period`. Sums run over the
 * elements of a group as they lie in memory, in 16 chains and their tree (OP_CHAINS16). */
#pragma once

#include "kernel/unit.h"

HD_BOTH int norm_channels(const hd_geom *g) { return g->ci / g->norm.groups; }
HD_BOTH int64_t norm_elems(const hd_geom *g) { return op_pixels(g) * norm_channels(g); }

/* The place in a sample of element i of a group: pixel by pixel, its channels. */
HD_BOTH int64_t norm_place(const hd_geom *g, int64_t group, int64_t i) {
  const int64_t channels = norm_channels(g);
  return i / channels * g->ci + group * channels + i % channels;
}

HD_BOTH real norm_rate(const hd_geom *g, real var) { return 1 / REAL_SQRT(var + g->norm.eps); }

/* mean = the sum of x / N; var = the sum of fma(d, d) / N with d = x - mean; r = 1 / sqrt(var + eps). Normalised: xhat
 * = (x - mean) * r. */
HD_BOTH void norm_moments(const hd_geom *g, const real *x, int64_t group, real *mean_out, real *r_out) {
  const int64_t elems = norm_elems(g);
  OP_CHAINS16(sum, elems, s + x[norm_place(g, group, i)]);
  const real mean = sum / (real)elems;
  OP_CHAINS16(square, elems, REAL_FMA(x[norm_place(g, group, i)] - mean, x[norm_place(g, group, i)] - mean, s));
  *mean_out = mean;
  *r_out = norm_rate(g, square / (real)elems);
}

/* y = fma(xhat, w, b) */
HD_BOTH void norm_forward(const op_call *c, int64_t n, int64_t group, int64_t period) {
  const hd_geom *g = op_geom(c);
  const real *x = op_in(c, 0, n);
  real mean, r;
  norm_moments(g, x, group, &mean, &r);
  for (int64_t i = 0; i < norm_elems(g); i++) {
    const int64_t at = norm_place(g, group, i);
    op_out(c, 0, n)[at] = REAL_FMA((x[at] - mean) * r, op_param(c, 1)[at % period], op_param(c, 2)[at % period]);
  }
}

/* h = dy * w; a = the sum of h / N; b = the sum of fma(h, xhat) / N; dx = r * (h - fma(xhat, b, a)), d = x - mean. */
HD_BOTH real norm_slope(real h, real d, real r, real a, real b) { return r * (h - REAL_FMA(d * r, b, a)); }

HD_BOTH void norm_backward(const op_call *c, int64_t n, int64_t group, int64_t period) {
  const hd_geom *g = op_geom(c);
  const real *dy = op_in(c, 0, n), *w = op_param(c, 1), *x = op_in(c, 2, n);
  const int64_t elems = norm_elems(g);
  real mean, r;
  norm_moments(g, x, group, &mean, &r);
  OP_CHAINS16(sum, elems, s + dy[norm_place(g, group, i)] * w[norm_place(g, group, i) % period]);
  OP_CHAINS16(dot, elems,
              REAL_FMA(dy[norm_place(g, group, i)] * w[norm_place(g, group, i) % period],
                       (x[norm_place(g, group, i)] - mean) * r, s));
  for (int64_t i = 0; i < elems; i++) {
    const int64_t at = norm_place(g, group, i);
    op_out(c, 0, n)[at] = norm_slope(dy[at] * w[at % period], x[at] - mean, r, sum / (real)elems, dot / (real)elems);
  }
}
