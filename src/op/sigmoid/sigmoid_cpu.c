/* sigmoid by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 sigmoid_16(const hd_geom *g, g16 x) {
  g16_mask below = g16_less(x, g16_zero());
  g16 e = g16_exp(g16_choose(below, x, g16_minus(x)));
  return g16_div(g16_choose(below, e, g16_all(1)), g16_add(g16_all(1), e));
}

G16 g16 sigmoid_dx_16(const hd_geom *g, g16 dy, g16 y) { return g16_mul(dy, g16_mul(y, g16_sub(g16_all(1), y))); }

EACH16(sigmoid)
