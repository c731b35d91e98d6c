/* hardsigmoid by groups of sixteen, and its gradient. */
#include "op/hardsigmoid/hardsigmoid_cpu.h"

G16 g16 hardsigmoid_dx_16(const hd_geom *g, g16 dy, g16 y) {
  const g16 below = g16_choose(g16_less(y, g16_all(1)), g16_div(dy, g16_all(6)), g16_zero());
  return g16_choose(g16_less(g16_zero(), y), below, g16_zero());
}

EACH16(hardsigmoid)
