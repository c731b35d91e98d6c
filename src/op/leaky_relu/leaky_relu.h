/* leaky_relu: y = x where x is positive, negative_slope * x elsewhere; a NaN passes. */
#pragma once

#include "op/elementwise.h"

/* y: `x < 0 ? slope * x : x` */
HD_BOTH real leaky_relu_of(const hd_geom *g, real x) { return x < 0 ? g->leaky_relu.negative_slope * x : x; }

/* dx: `y > 0 ? dy : slope * dy` */
HD_BOTH real leaky_relu_dx_of(const hd_geom *g, real dy, real y) {
  return y > 0 ? dy : g->leaky_relu.negative_slope * dy;
}

OP_ELEMENTWISE(leaky_relu)
