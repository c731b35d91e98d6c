/* softmax: over the channels of each pixel. Sums along the channels are OP_CHAINS16. */
#pragma once

#include "kernel/unit.h"

/* m and sum of the chain below. */
HD_BOTH real softmax_largest(const real *x, int count) {
  real m = x[0];
  for (int i = 1; i < count; i++)
    if (op_takes_over(x[i], m))
      m = x[i];
  return m;
}
HD_BOTH real softmax_sum(const real *x, int count, real m) {
  OP_CHAINS16(sum, count, s + REAL_EXP(x[i] - m));
  return sum;
}

/* y: over the channels of a pixel, or over a flat value: m = the maximum; e[i] = `exp(x[i] - m)`; sum = 16 chains of
 * additions of e and the tree; `e[i] / sum` */
HD_BOTH int64_t softmax_count(const hd_geom *g) { return op_pixels(g); }
HD_BOTH void softmax_at(const op_call *c, int64_t n, int64_t pixel) {
  const int channels = op_geom(c)->ci;
  const real *x = op_in(c, 0, n) + pixel * channels;
  real *y = op_out(c, 0, n) + pixel * channels;
  const real m = softmax_largest(x, channels), sum = softmax_sum(x, channels, m);
  for (int i = 0; i < channels; i++)
    y[i] = REAL_EXP(x[i] - m) / sum;
}

/* dx: dot = 16 chains of `fma(dy, y, s)` over the channels and the tree; `y * (dy - dot)` */
HD_BOTH int64_t softmax_dx_count(const hd_geom *g) { return op_pixels(g); }
HD_BOTH void softmax_dx_at(const op_call *c, int64_t n, int64_t pixel) {
  const int channels = op_geom(c)->ci;
  const real *dy = op_in(c, 0, n) + pixel * channels, *y = op_in(c, 1, n) + pixel * channels;
  real *dx = op_out(c, 0, n) + pixel * channels;
  OP_CHAINS16(dot, channels, REAL_FMA(dy[i], y[i], s));
  for (int i = 0; i < channels; i++)
    dx[i] = y[i] * (dy[i] - dot);
}
