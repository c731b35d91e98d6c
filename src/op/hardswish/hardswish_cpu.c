/* hardswish by groups of sixteen. */
#include "op/hardsigmoid/hardsigmoid_cpu.h"

G16 g16 hardswish_16(const hd_geom *g, g16 x) { return g16_mul(x, hardsigmoid_16(g, x)); }

/* Sides of the corners are compared by "less" alone: what is neither below 3 nor a NaN is at or above it. */
G16 g16 hardswish_dx_16(const hd_geom *g, g16 dy, g16 x) {
  const g16 slope = g16_mul(dy, g16_fma(x, g16_all((float)(1.0 / 3)), g16_all(0.5f)));
  const g16 between = g16_choose(g16_or(g16_less(x, g16_all(3)), g16_nan(x)), slope, dy);
  return g16_choose(g16_or(g16_less(g16_all(-3), x), g16_nan(x)), between, g16_zero());
}

EACH16(hardswish)
