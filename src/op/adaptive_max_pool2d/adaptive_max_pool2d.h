/* adaptive_max_pool2d: the maximum of each of as many windows as the output has pixels. */
#pragma once

#include "op/adaptive.h"

/* Which element of a sample: the first of equal ones, or a NaN. */
HD_BOTH int64_t adaptive_max_pool2d_place(const hd_geom *g, const real *x, int oy, int ox, int channel) {
  int64_t best = adaptive_at(g, adaptive_first(g, 0, oy), adaptive_first(g, 1, ox), channel);
  for (int y = adaptive_first(g, 0, oy); y < adaptive_end(g, 0, oy); y++)
    for (int at = adaptive_first(g, 1, ox); at < adaptive_end(g, 1, ox); at++)
      if (op_takes_over(x[adaptive_at(g, y, at, channel)], x[best]))
        best = adaptive_at(g, y, at, channel);
  return best;
}

/* y: the maximum over the window, which is that of `adaptive_avg_pool2d` */
HD_BOTH int64_t adaptive_max_pool2d_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->ci; }
HD_BOTH void adaptive_max_pool2d_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int pixel = (int)(i / g->ci);
  const real *x = op_in(c, 0, n);
  op_out(c, 0, n)[i] = x[adaptive_max_pool2d_place(g, x, pixel / g->wo, pixel % g->wo, (int)(i % g->ci))];
}

/* dx: `acc = +0`; windows ascending whose maximum was this element: `acc = acc + dy` */
HD_BOTH int64_t adaptive_max_pool2d_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void adaptive_max_pool2d_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ch = (int)(i % g->ci), y = (int)(i / g->ci) / g->wi, x = (int)(i / g->ci) % g->wi;
  const real *dy = op_in(c, 0, n) + ch;
  real acc = 0;
  OP_ADAPTIVE_OUTPUTS(g, y, x, {
    if (adaptive_max_pool2d_place(g, op_in(c, 1, n), oy, ox, ch) == i)
      acc = acc + dy[((int64_t)oy * g->wo + ox) * g->ci];
  })
  op_out(c, 0, n)[i] = acc;
}
