/* hardsigmoid: a line from 0 at -3 to 1 at 3; a NaN passes. */
#pragma once

#include "op/elementwise.h"

/* y: v = `x + 3`; `(v < 0 ? 0 : v > 6 ? 6 : v) / 6` */
HD_BOTH real hardsigmoid_of(const hd_geom *g, real x) {
  const real v = x + 3;
  return (v < 0 ? 0 : v > 6 ? 6 : v) / 6;
}

/* dx: `y > 0 ? (y < 1 ? dy / 6 : 0) : 0` */
HD_BOTH real hardsigmoid_dx_of(const hd_geom *g, real dy, real y) { return y > 0 ? (y < 1 ? dy / 6 : 0) : 0; }

OP_ELEMENTWISE(hardsigmoid)
