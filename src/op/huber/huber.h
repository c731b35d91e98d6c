/* huber: half the square of small differences, a line beyond delta. */
#pragma once

#include "op/loss.h"

/* y: 16 chains of `s + (|d| < delta ? (0.5 * |d|) * |d| : delta * (|d| - 0.5 * delta))` and the tree, d = `y -
 * target` */
HD_BOTH real huber_term(const hd_geom *g, real weight, real y, real target) {
  const real delta = g->huber.delta, half = (real)0.5, a = loss_magnitude(y - target);
  return a < delta ? (half * a) * a : delta * (a - half * delta);
}
/* dx: `(d > delta ? delta : d < -delta ? -delta : d) / divisor` */
HD_BOTH real huber_slope(const hd_geom *g, real weight, real y, real target) {
  const real delta = g->huber.delta, d = y - target;
  return d > delta ? delta : d < -delta ? -delta : d;
}

OP_LOSS_OF_TERMS(huber, loss_add)
