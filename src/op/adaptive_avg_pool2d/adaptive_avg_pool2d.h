/* adaptive_avg_pool2d: the mean of each of as many windows as the output has pixels. */
#pragma once

#include "op/adaptive.h"

HD_BOTH real adaptive_avg_pool2d_size(const hd_geom *g, int oy, int ox) {
  return (real)((adaptive_end(g, 0, oy) - adaptive_first(g, 0, oy)) *
                (adaptive_end(g, 1, ox) - adaptive_first(g, 1, ox)));
}

/* y: window o of `out` along an axis of `in`: places `floor(o * in / out)` to `ceil((o + 1) * in / out) - 1`; `acc =
 * +0`; its positions ascending: `acc = acc + x`; `acc / n` */
HD_BOTH int64_t adaptive_avg_pool2d_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->ci; }
HD_BOTH void adaptive_avg_pool2d_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ch = (int)(i % g->ci), oy = (int)(i / g->ci) / g->wo, ox = (int)(i / g->ci) % g->wo;
  real acc = 0;
  for (int y = adaptive_first(g, 0, oy); y < adaptive_end(g, 0, oy); y++)
    for (int x = adaptive_first(g, 1, ox); x < adaptive_end(g, 1, ox); x++)
      acc = acc + op_in(c, 0, n)[adaptive_at(g, y, x, ch)];
  op_out(c, 0, n)[i] = acc / adaptive_avg_pool2d_size(g, oy, ox);
}

/* dx: `acc = +0`; windows that hold this element ascending: `acc = acc + dy / n` */
HD_BOTH int64_t adaptive_avg_pool2d_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void adaptive_avg_pool2d_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int ch = (int)(i % g->ci), y = (int)(i / g->ci) / g->wi, x = (int)(i / g->ci) % g->wi;
  const real *dy = op_in(c, 0, n) + ch;
  real acc = 0;
  OP_ADAPTIVE_OUTPUTS(g, y, x,
                      acc = acc + dy[((int64_t)oy * g->wo + ox) * g->ci] / adaptive_avg_pool2d_size(g, oy, ox));
  op_out(c, 0, n)[i] = acc;
}
