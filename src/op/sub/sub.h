/* sub: the difference of two values. */
#pragma once

#include "op/binary.h"

/* y: `a - b` */
HD_BOTH real sub_of(real a, real b) { return a - b; }

/* dx: slope = `dy`, of b `0 - dy`; an input that is spread: as `mul` */
HD_BOTH real sub_slope(const op_call *c, int64_t n, int64_t i) {
  const real dy = op_in(c, 0, n)[i];
  return op_geom(c)->binary.part ? 0 - dy : dy;
}

OP_BINARY(sub)
