/* relu6 by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 relu6_16(const hd_geom *g, g16 x) {
  const g16 six = g16_all(6);
  return g16_relu(g16_choose(g16_less(six, x), six, x));
}

G16 g16 relu6_dx_16(const hd_geom *g, g16 dy, g16 y) {
  const g16 below = g16_choose(g16_less(y, g16_all(6)), dy, g16_zero());
  return g16_choose(g16_less(g16_zero(), y), below, g16_zero());
}

EACH16(relu6)
