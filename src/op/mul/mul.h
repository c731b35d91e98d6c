/* mul: of two values. */
#pragma once

#include "op/binary.h"

/* y: `a * b` */
HD_BOTH real mul_of(real a, real b) { return a * b; }

/* dx: slope = `dy * (the other one)`. Of an input that is spread over pixels: `acc = +0`, pixels ascending: `acc =
 * acc + slope`; over channels: 16 chains of additions along the channels and the tree; over both: the same along all
 * elements */
HD_BOTH real mul_slope(const op_call *c, int64_t n, int64_t i) {
  return op_in(c, 0, n)[i] * binary_input(c, !op_geom(c)->binary.part, n, i);
}

OP_BINARY(mul)
