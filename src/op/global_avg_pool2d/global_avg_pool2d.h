/* global_avg_pool2d: the mean of each channel. */
#pragma once

#include "kernel/unit.h"

/* y: `acc = +0`; pixels ascending: `acc = acc + x`; `acc / n`, n being the pixels */
/* dx: as `avg_pool2d`, with one window: `0 + dy / n` */
HD_BOTH int64_t global_avg_pool2d_count(const hd_geom *g) { return g->ci; }
HD_BOTH void global_avg_pool2d_at(const op_call *c, int64_t n, int64_t channel) {
  const int pixels = (int)op_pixels(op_geom(c)), channels = op_geom(c)->ci;
  const real *x = op_in(c, 0, n) + channel;
  real acc = 0;
  HD_UNROLL_BY_8
  for (int p = 0; p < pixels; p++)
    acc = acc + x[(int64_t)p * channels];
  op_out(c, 0, n)[channel] = acc / (real)pixels;
}
