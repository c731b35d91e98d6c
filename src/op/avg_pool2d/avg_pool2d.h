/* avg_pool2d: of any window, stride and padding; and the gradient, also that of global_avg_pool2d. */
#pragma once

#include "op/window.h"

/* By how much the sum of the window at (oy, ox) is divided: its positions, without the padding unless that counts. */
HD_BOTH real avg_pool2d_divisor(const hd_geom *g, int oy, int ox) {
  const int padded = g->avg_pool2d.count_include_pad;
  const int top = oy * g->window.sh - g->window.ph, left = ox * g->window.sw - g->window.pw;
  const int bottom = g->hi + (padded ? g->window.ph : 0), right = g->wi + (padded ? g->window.pw : 0);
  const int rows = (top + g->window.kh < bottom ? top + g->window.kh : bottom) - (top > 0 || padded ? top : 0);
  const int columns = (left + g->window.kw < right ? left + g->window.kw : right) - (left > 0 || padded ? left : 0);
  return (real)(rows * columns);
}

/* y: `acc = +0`; the window's positions ascending, those in the padding left out: `acc = acc + x`; `acc / n`, n being
 * the window's positions up to the padding's end, with `count_include_pad: false` those inside the image */
HD_BOTH int64_t avg_pool2d_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->ci; }
HD_BOTH void avg_pool2d_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ch = (int)(i % g->ci), oy = (int)(i / g->ci) / g->wo, ox = (int)(i / g->ci) % g->wo;
  real acc = 0;
  for (int p = 0; p < g->window.kh * g->window.kw; p++) {
    const int row = oy * g->window.sh + p / g->window.kw - g->window.ph,
              col = ox * g->window.sw + p % g->window.kw - g->window.pw;
    if (row >= 0 && row < g->hi && col >= 0 && col < g->wi)
      acc = acc + op_in(c, 0, n)[((int64_t)row * g->wi + col) * g->ci + ch];
  }
  op_out(c, 0, n)[i] = acc / avg_pool2d_divisor(g, oy, ox);
}

/* dx: `acc = +0`; windows that hold this element ascending: `acc = acc + dy / n` */
HD_BOTH int64_t avg_pool2d_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void avg_pool2d_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ch = (int)(i % g->ci), y = (int)(i / g->ci) / g->wi, x = (int)(i / g->ci) % g->wi;
  const int oy1 = window_last(y + g->window.ph, g->window.sh, g->ho),
            ox1 = window_last(x + g->window.pw, g->window.sw, g->wo);
  real acc = 0;
  for (int oy = window_first(y + g->window.ph, g->window.kh, g->window.sh); oy <= oy1; oy++)
    for (int ox = window_first(x + g->window.pw, g->window.kw, g->window.sw); ox <= ox1; ox++)
      acc = acc + op_in(c, 0, n)[((int64_t)oy * g->wo + ox) * g->ci + ch] / avg_pool2d_divisor(g, oy, ox);
  op_out(c, 0, n)[i] = acc;
}
