/* div: the quotient of two values. */
#pragma once

#include "op/binary.h"

/* y: `a / b` */
HD_BOTH real div_of(real a, real b) { return a / b; }

/* dx: slope = `dy / b`, of b `0 - dy * ((a / b) / b)`; an input that is spread: as `mul` */
HD_BOTH real div_slope(const op_call *c, int64_t n, int64_t i) {
  const real dy = op_in(c, 0, n)[i], b = binary_input(c, 1, n, i);
  return op_geom(c)->binary.part ? 0 - dy * (binary_input(c, 0, n, i) / b / b) : dy / b;
}

OP_BINARY(div)
