/* clip: x between two numbers; a NaN passes. */
#pragma once

#include "op/elementwise.h"

/* y: `x < min ? min : x > max ? max : x` */
HD_BOTH real clip_of(const hd_geom *g, real x) {
  return x < g->clip.min ? g->clip.min : x > g->clip.max ? g->clip.max : x;
}

/* dx: `x < min ? 0 : x > max ? 0 : dy` */
HD_BOTH real clip_dx_of(const hd_geom *g, real dy, real x) { return x < g->clip.min ? 0 : x > g->clip.max ? 0 : dy; }

OP_ELEMENTWISE(clip)
