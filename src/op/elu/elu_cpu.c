/* elu by groups of sixteen. */
#include "op/elu/elu_cpu.h"

G16 g16 elu_16(const hd_geom *g, g16 x) {
  return g16_choose(g16_less(x, g16_zero()), g16_mul(g16_all(g->elu.alpha), g16_exp_minus_1(x)), x);
}

G16 g16 elu_dx_16(const hd_geom *g, g16 dy, g16 y) {
  return g16_choose(g16_less(g16_zero(), y), dy, g16_mul(dy, g16_add(y, g16_all(g->elu.alpha))));
}

EACH16(elu)
