/* leaky_relu by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 leaky_relu_16(const hd_geom *g, g16 x) {
  return g16_choose(g16_less(x, g16_zero()), g16_mul(g16_all(g->leaky_relu.negative_slope), x), x);
}

G16 g16 leaky_relu_dx_16(const hd_geom *g, g16 dy, g16 y) {
  return g16_choose(g16_less(g16_zero(), y), dy, g16_mul(g16_all(g->leaky_relu.negative_slope), dy));
}

EACH16(leaky_relu)
