/* l1: the sum of |y - target|. */
#pragma once

#include "op/loss.h"

/* y: 16 chains of `s + |d|` and the tree, d = `y - target` */
HD_BOTH real l1_term(const hd_geom *g, real weight, real y, real target) { return loss_magnitude(y - target); }
/* dx: `(d > 0 ? 1 : d < 0 ? -1 : d) / divisor` */
HD_BOTH real l1_slope(const hd_geom *g, real weight, real y, real target) {
  const real d = y - target;
  return d > 0 ? 1 : d < 0 ? -1 : d;
}

OP_LOSS_OF_TERMS(l1, loss_add)
