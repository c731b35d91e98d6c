/* add: of two values. */
#pragma once

#include "kernel/unit.h"

/* y: `a + b` */
HD_BOTH int64_t add_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void add_at(const op_call *c, int64_t n, int64_t i) {
  op_out(c, 0, n)[i] = op_in(c, 0, n)[i] + op_in(c, 1, n)[i];
}
