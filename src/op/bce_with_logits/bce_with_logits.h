/* bce_with_logits: binary cross-entropy of scores; in[2]: weights of positive examples. */
#pragma once

#include "op/loss.h"

/* log(1 + e) for 0 <= e <= 1, small e included. */
HD_BOTH real bce_log_1_plus(real e) {
  const real u = 1 + e;
  return u == 1 ? e : REAL_LOG(u) * e / (u - 1);
}

/* y: e = `exp(-|y|)`; u = `1 + e`; log1p = `u == 1 ? e : log(u) * e / (u - 1)`; 16 chains of `s + fma(fma(w - 1,
 * target, 1), log1p + (y < 0 ? -y : 0), (1 - target) * y)` and the tree, w being pos_weight, or 1 */
HD_BOTH real bce_with_logits_term(const hd_geom *g, real w, real y, real target) {
  const real softplus = bce_log_1_plus(REAL_EXP(-loss_magnitude(y))) + (y < 0 ? -y : 0);
  return REAL_FMA(REAL_FMA(w - 1, target, 1), softplus, (1 - target) * y);
}

/* dx: sigma = `(y < 0 ? e : 1) / (1 + e)`; `fma(fma(w, target, 1 - target), sigma, -(w * target)) / divisor` */
HD_BOTH real bce_with_logits_slope(const hd_geom *g, real w, real y, real target) {
  const real e = REAL_EXP(-loss_magnitude(y)), sigma = (y < 0 ? e : 1) / (1 + e);
  return REAL_FMA(REAL_FMA(w, target, 1 - target), sigma, -(w * target));
}

OP_LOSS_OF_TERMS(bce_with_logits, loss_add)
