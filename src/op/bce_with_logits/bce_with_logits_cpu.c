/* bce_with_logits by groups of sixteen. */
#include "op/loss_cpu.h"

/* log(1 + e), lane by lane. */
static g16 log_1_plus(g16 e) {
  float lane[16];
  g16_store(lane, e);
  for (int c = 0; c < 16; c++) {
    float u = 1 + lane[c];
    lane[c] = u == 1 ? lane[c] : hd__logf(u) * lane[c] / (u - 1);
  }
  return g16_load(lane);
}

G16 g16 bce_with_logits_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains) {
  g16 one = g16_all(1);
  g16 log_weight = g16_fma(g16_sub(loss16_weights(call, i), one), target, one);
  g16 below = g16_choose(g16_less(y, g16_zero()), loss16_minus(y), g16_zero());
  g16 softplus = g16_add(log_1_plus(g16_exp_minus_abs(y)), below);
  return g16_add(chains, g16_fma(log_weight, softplus, g16_mul(g16_sub(one, target), y)));
}

G16 g16 bce_with_logits_slope(const hd_call *call, int32_t i, g16 y, g16 target) {
  g16 one = g16_all(1), e = g16_exp_minus_abs(y), w = loss16_weights(call, i);
  g16 sigma = g16_div(g16_choose(g16_less(y, g16_zero()), e, one), g16_add(one, e));
  return g16_fma(g16_fma(w, target, g16_sub(one, target)), sigma, loss16_minus(g16_mul(w, target)));
}

LOSS16(bce_with_logits)
