/* bce_with_logits: binary cross-entropy of scores; in[2]: weights of positive examples. */
#pragma once

#include "op/loss.h"

/* log(1 + e) for 0 <= e <= 1, small e included: u = 1 + e; u == 1 ? e : log(u) * e / (u - 1). */
HD_BOTH real bce_log_1_plus(real e) {
  const real u = 1 + e;
  return u == 1 ? e : REAL_LOG(u) * e / (u - 1);
}

/* e = exp(-|y|), w the weight: chain = chain + fma(fma(w - 1, target, 1), log(1 + e) + (y < 0 ? -y : 0), (1 - target) *
 * y). */
HD_BOTH real bce_with_logits_term(const hd_geom *g, real w, real y, real target) {
  const real softplus = bce_log_1_plus(REAL_EXP(-loss_magnitude(y))) + (y < 0 ? -y : 0);
  return REAL_FMA(REAL_FMA(w - 1, target, 1), softplus, (1 - target) * y);
}

/* sigma = (y < 0 ? e : 1) / (1 + e); slope fma(fma(w, target, 1 - target), sigma, -(w * target)). */
HD_BOTH real bce_with_logits_slope(const hd_geom *g, real w, real y, real target) {
  const real e = REAL_EXP(-loss_magnitude(y)), sigma = (y < 0 ? e : 1) / (1 + e);
  return REAL_FMA(REAL_FMA(w, target, 1 - target), sigma, -(w * target));
}

OP_LOSS_OF_TERMS(bce_with_logits, loss_add)
