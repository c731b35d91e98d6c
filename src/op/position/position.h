/* position: a weight for each element, the same in all samples, is added. */
#pragma once

#include "kernel/unit.h"

/* y: `x + weight` */
HD_BOTH int64_t position_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void position_at(const op_call *c, int64_t n, int64_t i) {
  op_out(c, 0, n)[i] = op_in(c, 0, n)[i] + op_param(c, 1)[i];
}

/* dx: `dy` */
HD_BOTH int64_t position_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void position_dx_at(const op_call *c, int64_t n, int64_t i) { op_put_dx(c, n, i, op_in(c, 0, n)[i]); }

/* dw: per shard: `dw = +0`; samples ascending: `dw = dw + dy` */
HD_BOTH int64_t position_dw_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void position_dw_at(const op_call *c, int64_t k, int64_t i) {
  real dw = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++)
    dw = dw + op_in(c, 0, n)[i];
  op_sums(c, 0, k)[i] = dw;
}
