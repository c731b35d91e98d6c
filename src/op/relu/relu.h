/* relu: what is not negative passes. */
#pragma once

#include "op/elementwise.h"

/* y: `x < 0 ? 0 : x`; a NaN and a -0 pass. */
HD_BOTH real relu_of(const hd_geom *g, real x) { return x < 0 ? 0 : x; }

/* dx: `y > 0 ? dy : 0` */
HD_BOTH real relu_dx_of(const hd_geom *g, real dy, real y) { return y > 0 ? dy : 0; }

OP_ELEMENTWISE(relu)
