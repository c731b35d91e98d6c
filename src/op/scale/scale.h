/* scale: each element times a constant; a NaN passes. */
#pragma once

#include "op/elementwise.h"

/* y: `factor * x` */
HD_BOTH real scale_of(const hd_geom *g, real x) { return g->scale.factor * x; }

/* dx: `factor * dy` */
HD_BOTH real scale_dx_of(const hd_geom *g, real dy, real y) { return g->scale.factor * dy; }

OP_ELEMENTWISE(scale)
