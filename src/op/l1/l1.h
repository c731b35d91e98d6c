/* l1: the sum of |y - target|. */
#pragma once

#include "op/loss.h"

/* chain = chain + |d|; slope 1, -1, or d itself (a zero, a NaN). */
HD_BOTH real l1_term(const hd_geom *g, real weight, real y, real target) { return loss_magnitude(y - target); }
HD_BOTH real l1_slope(const hd_geom *g, real weight, real y, real target) {
  const real d = y - target;
  return d > 0 ? 1 : d < 0 ? -1 : d;
}

OP_LOSS_OF_TERMS(l1, loss_add)
