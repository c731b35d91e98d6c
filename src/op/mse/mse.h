/* mse: the sum of (y - target)^2. */
#pragma once

#include "op/loss.h"

/* y: 16 chains of `fma(d, d, s)` and the tree, d = `y - target` */
HD_BOTH real mse_term(const hd_geom *g, real weight, real y, real target) { return y - target; }
/* dx: `(d + d) / divisor` */
HD_BOTH real mse_slope(const hd_geom *g, real weight, real y, real target) {
  const real d = y - target;
  return d + d;
}

OP_LOSS_OF_TERMS(mse, loss_add_square)
