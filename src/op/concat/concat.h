/* concat: the channels of several inputs behind each other. */
#pragma once

#include "kernel/unit.h"

/* y: moved, not computed */
HD_BOTH int64_t concat_count(const hd_geom *g) { return (int64_t)g->co * g->hi * g->wi; }
HD_BOTH void concat_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  int channel = (int)(i % g->co), k = 0;
  while (channel >= g->concat.part[k])
    channel -= g->concat.part[k++];
  op_out(c, 0, n)[i] = op_in(c, k, n)[i / g->co * g->concat.part[k] + channel];
}

/* dx: moved, not computed */
HD_BOTH int64_t concat_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void concat_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  op_out(c, 0, n)[i] = op_in(c, 0, n)[i / g->ci * g->co + g->concat.first + i % g->ci];
}
