/* slice: some neighbouring channels. */
#pragma once

#include "kernel/unit.h"

/* y: moved, not computed */
HD_BOTH int64_t slice_count(const hd_geom *g) { return (int64_t)g->co * g->hi * g->wi; }
HD_BOTH void slice_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  op_out(c, 0, n)[i] = op_in(c, 0, n)[i / g->co * g->ci + g->slice.start + i % g->co];
}

/* dx: moved, not computed; 0 for the other channels */
HD_BOTH int64_t slice_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void slice_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int64_t channel = i % g->ci - g->slice.start;
  op_out(c, 0, n)[i] = channel >= 0 && channel < g->co ? op_in(c, 0, n)[i / g->ci * g->co + channel] : 0;
}
