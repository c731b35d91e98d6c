/* huber: half the square of small differences, a line beyond delta. */
#pragma once

#include "op/loss.h"

/* chain = chain + (|d| < delta ? (|d| / 2) * |d| : delta * (|d| - delta / 2)); slope d, within -delta and delta. */
HD_BOTH real huber_term(const hd_geom *g, real weight, real y, real target) {
  const real delta = g->delta, half = (real)0.5, a = loss_magnitude(y - target);
  return a < delta ? (half * a) * a : delta * (a - half * delta);
}
HD_BOTH real huber_slope(const hd_geom *g, real weight, real y, real target) {
  const real delta = g->delta, d = y - target;
  return d > delta ? delta : d < -delta ? -delta : d;
}

OP_LOSS_OF_TERMS(huber, loss_add)
