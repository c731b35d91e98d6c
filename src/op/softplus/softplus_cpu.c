/* softplus by groups of sixteen. */
#include "op/sigmoid/sigmoid_cpu.h"

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
  const g16 y = g16_div(g16_add(g16_relu(z), log_1_plus(g16_exp_minus_abs(z))), beta);
  return g16_choose(g16_less(g16_all(g->softplus.threshold), z), x, y);
}

G16 g16 softplus_dx_16(const hd_geom *g, g16 dy, g16 x) {
  const g16 z = g16_mul(g16_all(g->softplus.beta), x);
  return g16_choose(g16_less(g16_all(g->softplus.threshold), z), dy, g16_mul(dy, g16_sigmoid(z)));
}

EACH16(softplus)
