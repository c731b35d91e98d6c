/* max: the largest channel of each pixel, or the largest pixel of each channel; the first of equal ones, or a NaN. */
#pragma once

#include "op/line.h"

/* Which element of a line. */
HD_BOTH int64_t max_place(const hd_geom *g, const real *x) {
  const int64_t step = line_step(g);
  int64_t best = 0;
  for (int64_t i = 1; i < line_length(g); i++)
    if (op_takes_over(x[i * step], x[best * step]))
      best = i;
  return best;
}

/* y: the maximum */
HD_BOTH int64_t max_count(const hd_geom *g) { return line_count(g); }
HD_BOTH void max_at(const op_call *c, int64_t n, int64_t line) {
  const hd_geom *g = op_geom(c);
  const real *x = op_in(c, 0, n) + line_first(g, line);
  op_out(c, 0, n)[line] = x[max_place(g, x) * line_step(g)];
}

/* dx: `dy` where the maximum was taken, else 0 */
HD_BOTH int64_t max_dx_count(const hd_geom *g) { return line_count(g); }
HD_BOTH void max_dx_at(const op_call *c, int64_t n, int64_t line) {
  const hd_geom *g = op_geom(c);
  const int64_t first = line_first(g, line), place = max_place(g, op_in(c, 1, n) + first);
  real *dx = op_out(c, 0, n) + first;
  for (int64_t i = 0; i < line_length(g); i++)
    dx[i * line_step(g)] = i == place ? op_in(c, 0, n)[line] : 0;
}
