/* max_pool2d: of any window, stride and padding; the padding is never taken. argmax holds the position in the window.
 * */
#pragma once

#include "op/window.h"

/* y: the maximum over the window; the padding is left out, never taken */
HD_BOTH int64_t max_pool2d_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->ci; }
HD_BOTH void max_pool2d_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ch = (int)(i % g->ci), oy = (int)(i / g->ci) / g->wo, ox = (int)(i / g->ci) % g->wo;
  const real *x = op_in(c, 0, n);
  int taken = -1;
  real best = 0;
  for (int p = 0; p < g->window.kh * g->window.kw; p++) {
    const int row = oy * g->window.sh + p / g->window.kw - g->window.ph,
              col = ox * g->window.sw + p % g->window.kw - g->window.pw;
    if (row < 0 || row >= g->hi || col < 0 || col >= g->wi)
      continue;
    const real v = x[((int64_t)row * g->wi + col) * g->ci + ch];
    if (taken < 0 || op_takes_over(v, best)) {
      best = v;
      taken = p;
    }
  }
  op_out(c, 0, n)[i] = best;
  if (c->out[1])
    op_bytes_out(c, 1, n)[i] = (uint8_t)taken;
}

/* dx: `acc = +0`; windows ascending whose maximum was this element: `acc = acc + dy` */
HD_BOTH int64_t max_pool2d_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void max_pool2d_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ch = (int)(i % g->ci), y = (int)(i / g->ci) / g->wi, x = (int)(i / g->ci) % g->wi;
  const real *dy = op_in(c, 0, n);
  const uint8_t *argmax = op_bytes_in(c, 1, n);
  const int oy1 = window_last(y + g->window.ph, g->window.sh, g->ho),
            ox1 = window_last(x + g->window.pw, g->window.sw, g->wo);
  real acc = 0;
  for (int oy = window_first(y + g->window.ph, g->window.kh, g->window.sh); oy <= oy1; oy++)
    for (int ox = window_first(x + g->window.pw, g->window.kw, g->window.sw); ox <= ox1; ox++) {
      const int64_t at = ((int64_t)oy * g->wo + ox) * g->ci + ch;
      if (argmax[at] == (y + g->window.ph - oy * g->window.sh) * g->window.kw + x + g->window.pw - ox * g->window.sw)
        acc = acc + dy[at];
    }
  op_out(c, 0, n)[i] = acc;
}
