/* tanh. */
#pragma once

#include "op/elementwise.h"

/* y: `tanh(x)`, the function of heddle */
HD_BOTH real tanh_of(const hd_geom *g, real x) { return REAL_TANH(x); }

/* dx: `dy * fma(-y, y, 1)` */
HD_BOTH real tanh_dx_of(const hd_geom *g, real dy, real y) { return dy * REAL_FMA(-y, y, 1); }

OP_ELEMENTWISE(tanh)
