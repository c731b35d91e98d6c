/* softplus by groups of sixteen. */
#include "kernel/cpu/each16.h"

/* softplus_log_1_plus in each lane. */
G16 g16 log_1_plus(g16 e) {
  const g16 s = g16_div(e, g16_add(g16_all(2), e)), z = g16_mul(s, s);
  g16 p = g16_all((float)(2.0 / 19));
  UNROLL
  for (int k = 17; k >= 3; k -= 2)
    p = g16_fma(p, z, g16_all(2.0f / (float)k));
  return g16_fma(g16_mul(s, z), p, g16_add(s, s));
}

G16 g16 softplus_16(const hd_geom *g, g16 x) {
  const g16 beta = g16_all(g->softplus.beta), z = g16_mul(beta, x);
  const g16 e = g16_exp(g16_choose(g16_less(z, g16_zero()), z, g16_minus(z)));
  const g16 y = g16_div(g16_add(g16_relu(z), log_1_plus(e)), beta);
  return g16_choose(g16_less(g16_all(g->softplus.threshold), z), x, y);
}

G16 g16 softplus_dx_16(const hd_geom *g, g16 dy, g16 x) {
  const g16 z = g16_mul(g16_all(g->softplus.beta), x), one = g16_all(1);
  const g16_mask below = g16_less(z, g16_zero());
  const g16 e = g16_exp(g16_choose(below, z, g16_minus(z)));
  const g16 s = g16_div(g16_choose(below, e, one), g16_add(one, e));
  return g16_choose(g16_less(g16_all(g->softplus.threshold), z), dy, g16_mul(dy, s));
}

EACH16(softplus)
