/* mean: of the channels of each pixel, or of the pixels of each channel. */
#pragma once

#include "op/line.h"

/* y: over channels: sum = 16 chains of additions and the tree; over pixels: `sum = +0`, pixels ascending: `sum = sum +
 * x`; `sum / n` */
HD_BOTH int64_t mean_count(const hd_geom *g) { return line_count(g); }
HD_BOTH void mean_at(const op_call *c, int64_t n, int64_t line) {
  const hd_geom *g = op_geom(c);
  const real *x = op_in(c, 0, n) + line_first(g, line);
  real sum = 0;
  if (g->line.channels) {
    OP_CHAINS16(all, g->ci, s + x[i]);
    sum = all;
  } else {
    for (int64_t i = 0; i < op_pixels(g); i++)
      sum = sum + x[i * g->ci];
  }
  op_out(c, 0, n)[line] = sum / (real)line_length(g);
}

/* dx: `dy / n` */
HD_BOTH int64_t mean_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void mean_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  op_out(c, 0, n)[i] = op_in(c, 0, n)[g->line.channels ? i / g->ci : i % g->ci] / (real)line_length(g);
}
