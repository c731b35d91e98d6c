/* relu6: x between 0 and 6; a NaN passes. */
#pragma once

#include "op/elementwise.h"

/* y: `x < 0 ? 0 : x > 6 ? 6 : x` */
HD_BOTH real relu6_of(const hd_geom *g, real x) { return x < 0 ? 0 : x > 6 ? 6 : x; }

/* dx: `y > 0 ? (y < 6 ? dy : 0) : 0` */
HD_BOTH real relu6_dx_of(const hd_geom *g, real dy, real y) { return y > 0 ? (y < 6 ? dy : 0) : 0; }

OP_ELEMENTWISE(relu6)
