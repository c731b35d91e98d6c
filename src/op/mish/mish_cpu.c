/* mish by groups of sixteen. */
#include "kernel/cpu/each16.h"

typedef struct mish_terms {
  g16_mask below;
  g16 e, t;
} mish_terms;

G16 mish_terms terms_of(g16 x) {
  mish_terms m = {.below = g16_less(x, g16_zero())};
  const g16 two = g16_all(2), e = m.e = g16_exp_minus_abs(x);
  const g16 n = g16_choose(m.below, g16_mul(e, g16_add(e, two)), g16_fma(two, e, g16_all(1)));
  m.t = g16_div(n, g16_add(n, g16_choose(m.below, two, g16_mul(g16_mul(two, e), e))));
  return m;
}

G16 g16 mish_16(const hd_geom *g, g16 x) { return g16_mul(x, terms_of(x).t); }

G16 g16 mish_dx_16(const hd_geom *g, g16 dy, g16 x) {
  const mish_terms m = terms_of(x);
  const g16 one = g16_all(1), s = g16_div(g16_choose(m.below, m.e, one), g16_add(one, m.e));
  return g16_mul(dy, g16_fma(g16_mul(x, s), g16_one_minus_square(m.t), m.t));
}

EACH16(mish)
