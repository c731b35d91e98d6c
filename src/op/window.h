/* Windows over images: shared by convolutions and pooling. */
#pragma once

#include "kernel/unit.h"

/* Element (y, x, c) of a padded image; y and x may lie outside, where it is zero. */
HD_BOTH real window_pixel(const real *image, int height, int width, int channels, int y, int x, int c) {
  if (y < 0 || y >= height || x < 0 || x >= width)
    return 0;
  return image[((int64_t)y * width + x) * channels + c];
}

/* Pixels that a window spans along an axis, 0 down or 1 across; the pixel of the image under tap k of window `at`. */
HD_BOTH int window_reach(const hd_geom *g, int axis) {
  return g->window.dilation[axis] * ((axis ? g->window.kw : g->window.kh) - 1) + 1;
}
HD_BOTH int window_tap(const hd_geom *g, int axis, int at, int k) {
  return axis ? at * g->window.sw + k * g->window.dilation[1] - g->window.pw
              : at * g->window.sh + k * g->window.dilation[0] - g->window.ph;
}

/* The tap of a window that lies this many pixels below and to the right of its first one; -1: none. */
HD_BOTH int window_tap_at(const hd_geom *g, int below, int right) {
  return below % g->window.dilation[0] || right % g->window.dilation[1]
             ? -1
             : below / g->window.dilation[0] * g->window.kw + right / g->window.dilation[1];
}

/* The gradient of a bias: acc = +0; samples of the shard ascending, the output's pixels ascending: acc = acc + dy. */
HD_BOTH real window_bias_dw(const op_call *c, int64_t k, int pixels, int co) {
  real acc = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++)
    for (int at = 0; at < pixels; at++)
      acc = acc + op_in(c, 1, n)[(int64_t)at * op_geom(c)->co + co];
  return acc;
}

/* The first output along an axis whose window reaches `at` (padding counted), and the last; s: the stride. */
HD_BOTH int window_first(int at, int kernel, int s) { return at < kernel ? 0 : (at - kernel) / s + 1; }
HD_BOTH int window_last(int at, int s, int outputs) { return at / s < outputs ? at / s : outputs - 1; }
