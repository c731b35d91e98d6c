/* conv_transpose2d: the transposed convolution, which is the gradient of a convolution with respect to its input, as a
 * layer; and its gradients. Pixel (y, x) of the input reaches output pixel y * stride + k * dilation - padding by tap k
 * of its window, so the windows lie over the output. */
#pragma once

#include "op/window.h"

/* The output's pixel under tap (ky, kx) of the window of input pixel (y, x); outside of the image it is zero. */
HD_BOTH real conv_transpose2d_pixel(const hd_geom *g, const real *image, int y, int x, int tap, int co) {
  return window_pixel(image, g->ho, g->wo, g->co, window_tap(g, 0, y, tap / g->window.kw),
                      window_tap(g, 1, x, tap % g->window.kw), co);
}

/* The weight of an input channel, an output channel of its group and a tap. */
HD_BOTH int64_t conv_transpose2d_weight(const hd_geom *g, int ci, int co, int tap) {
  const int outputs = g->co / g->conv.groups;
  return ((int64_t)ci * g->window.kh * g->window.kw + tap) * outputs + co % outputs;
}

/* ---- Forward ---- */

/* y: `acc = bias`, or +0 without one; pixels (iy, ix) of the input whose windows reach this one ascending, inside input
 * channels (of its group) ascending: `acc = fma(x, w, acc)` */
HD_BOTH int64_t conv_transpose2d_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->co; }
HD_BOTH void conv_transpose2d_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int channels = g->ci / g->conv.groups, co = (int)(i % g->co), group = co / (g->co / g->conv.groups);
  const int y = (int)(i / g->co) / g->wo + g->window.ph, x = (int)(i / g->co) % g->wo + g->window.pw;
  const int iy1 = window_last(y, g->window.sh, g->hi), ix1 = window_last(x, g->window.sw, g->wi);
  const real *image = op_in(c, 0, n), *w = op_param(c, 1);
  real acc = c->in[2] ? op_param(c, 2)[co] : 0;
  for (int iy = window_first(y, window_reach(g, 0), g->window.sh); iy <= iy1; iy++)
    for (int ix = window_first(x, window_reach(g, 1), g->window.sw); ix <= ix1; ix++) {
      const int tap = window_tap_at(g, y - iy * g->window.sh, x - ix * g->window.sw);
      for (int ci = group * channels; ci < (group + 1) * channels && tap >= 0; ci++)
        acc = REAL_FMA(image[((int64_t)iy * g->wi + ix) * g->ci + ci], w[conv_transpose2d_weight(g, ci, co, tap)], acc);
    }
  op_out(c, 0, n)[i] = acc;
}

/* ---- Gradient of the input ---- */

/* dx: `acc = +0`; (ky, kx, co) ascending, co over the output channels of the group: `acc = fma(dy, w, acc)`. Pixels
 * outside of the output are zeros and are included. */
HD_BOTH int64_t conv_transpose2d_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void conv_transpose2d_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ci = (int)(i % g->ci), at = (int)(i / g->ci), outputs = g->co / g->conv.groups;
  const int first = ci / (g->ci / g->conv.groups) * outputs;
  real acc = 0;
  for (int tap = 0; tap < g->window.kh * g->window.kw; tap++)
    for (int co = first; co < first + outputs; co++)
      acc = REAL_FMA(conv_transpose2d_pixel(g, op_in(c, 0, n), at / g->wi, at % g->wi, tap, co),
                     op_param(c, 1)[conv_transpose2d_weight(g, ci, co, tap)], acc);
  op_out(c, 0, n)[i] = acc;
}

/* ---- Gradients of weight and bias, per shard ---- */

/* dw: per shard: `acc = +0`; samples ascending, pixels of the input ascending: `acc = fma(x, dy, acc)`, dy being the
 * pixel under this tap, zero outside of the output */
HD_BOTH real conv_transpose2d_dw_value(const op_call *c, int64_t k, int ci, int tap, int co) {
  const hd_geom *g = op_geom(c);
  real acc = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++)
    for (int at = 0; at < op_pixels(g); at++)
      acc = REAL_FMA(op_in(c, 0, n)[(int64_t)at * g->ci + ci],
                     conv_transpose2d_pixel(g, op_in(c, 1, n), at / g->wi, at % g->wi, tap, co), acc);
  return acc;
}

/* db: per shard: `acc = +0`; samples ascending, pixels of the output ascending: `acc = acc + dy` */
HD_BOTH real conv_transpose2d_db_value(const op_call *c, int64_t k, int co) {
  const hd_geom *g = op_geom(c);
  return window_bias_dw(c, k, g->ho * g->wo, co);
}

/* The weights in memory order, then the biases. */
HD_BOTH int64_t conv_transpose2d_weights(const hd_geom *g) {
  return (int64_t)g->ci * g->window.kh * g->window.kw * (g->co / g->conv.groups);
}
HD_BOTH int64_t conv_transpose2d_dw_count(const hd_geom *g) { return conv_transpose2d_weights(g) + g->co; }
HD_BOTH void conv_transpose2d_dw_at(const op_call *c, int64_t k, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int outputs = g->co / g->conv.groups, taps = g->window.kh * g->window.kw;
  const int64_t bias = i - conv_transpose2d_weights(g);
  if (bias >= 0) {
    if (c->out[1])
      op_sums(c, 1, k)[bias] = conv_transpose2d_db_value(c, k, (int)bias);
    return;
  }
  const int ci = (int)(i / outputs / taps), first = ci / (g->ci / g->conv.groups) * outputs;
  if (c->out[0])
    op_sums(c, 0, k)[i] = conv_transpose2d_dw_value(c, k, ci, (int)(i / outputs % taps), first + (int)(i % outputs));
}
