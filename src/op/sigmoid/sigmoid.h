/* sigmoid: y = 1 / (1 + exp(-x)). */
#pragma once

#include "op/elementwise.h"

/* y: e = `exp(x < 0 ? x : 0 - x)`, which does not overflow; `(x < 0 ? e : 1) / (1 + e)` */
HD_BOTH real sigmoid_of(const hd_geom *g, real x) {
  const real e = REAL_EXP(x < 0 ? x : 0 - x);
  return (x < 0 ? e : 1) / (1 + e);
}

/* dx: `dy * (y * (1 - y))` */
HD_BOTH real sigmoid_dx_of(const hd_geom *g, real dy, real y) { return dy * (y * (1 - y)); }

OP_ELEMENTWISE(sigmoid)
