/* hardswish: x times hardsigmoid(x). */
#pragma once

#include "op/hardsigmoid/hardsigmoid.h"

/* y: `x * s`, s being what `hardsigmoid` computes of x */
HD_BOTH real hardswish_of(const hd_geom *g, real x) { return x * hardsigmoid_of(g, x); }

/* dx: `x <= -3 ? 0 : x >= 3 ? dy : dy * fma(x, 1/3, 0.5)` */
HD_BOTH real hardswish_dx_of(const hd_geom *g, real dy, real x) {
  return x <= -3 ? 0 : x >= 3 ? dy : dy * REAL_FMA(x, (real)(1.0 / 3), (real)0.5);
}

OP_ELEMENTWISE(hardswish)
