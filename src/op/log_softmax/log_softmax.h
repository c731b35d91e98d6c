/* log_softmax: the logarithm of a softmax over the channels of each pixel. */
#pragma once

#include "op/softmax/softmax.h"

/* y: m and sum as in `softmax`; `(x - m) - log(sum)` */
HD_BOTH int64_t log_softmax_count(const hd_geom *g) { return op_pixels(g); }
HD_BOTH void log_softmax_at(const op_call *c, int64_t n, int64_t pixel) {
  const int channels = op_geom(c)->ci;
  const real *x = op_in(c, 0, n) + pixel * channels;
  real *y = op_out(c, 0, n) + pixel * channels;
  const real m = softmax_largest(x, channels), sum = REAL_LOG(softmax_sum(x, channels, m));
  for (int i = 0; i < channels; i++)
    y[i] = x[i] - m - sum;
}

/* dx: sum = 16 chains of additions of dy over the channels and the tree; `fma(0 - exp(y), sum, dy)` */
HD_BOTH int64_t log_softmax_dx_count(const hd_geom *g) { return op_pixels(g); }
HD_BOTH void log_softmax_dx_at(const op_call *c, int64_t n, int64_t pixel) {
  const int channels = op_geom(c)->ci;
  const real *dy = op_in(c, 0, n) + pixel * channels, *y = op_in(c, 1, n) + pixel * channels;
  real *dx = op_out(c, 0, n) + pixel * channels;
  OP_CHAINS16(sum, channels, s + dy[i]);
  for (int i = 0; i < channels; i++)
    dx[i] = REAL_FMA(0 - REAL_EXP(y[i]), sum, dy[i]);
}
