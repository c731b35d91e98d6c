/* selu by groups of sixteen. */
#include "op/elu/elu_cpu.h"
#include "op/selu/selu.h"

G16 g16 selu_16(const hd_geom *g, g16 x) {
  const g16 below = g16_mul(g16_all((float)HD_SELU_ALPHA), g16_exp_minus_1(x));
  return g16_choose(g16_less(x, g16_zero()), below, g16_mul(g16_all((float)HD_SELU_SCALE), x));
}

G16 g16 selu_dx_16(const hd_geom *g, g16 dy, g16 y) {
  const g16 below = g16_mul(dy, g16_add(y, g16_all((float)HD_SELU_ALPHA)));
  return g16_choose(g16_less(g16_zero(), y), g16_mul(g16_all((float)HD_SELU_SCALE), dy), below);
}

EACH16(selu)
