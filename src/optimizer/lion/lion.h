/* lion: Chen et al., "Symbolic discovery of optimization algorithms", 2023. */
#pragma once

#include "kernel/unit.h"

/* w1: `c = fma(1 - beta1, g' - m, m)`; `m1 = fma(1 - beta2, g' - m, m)`; `w1 = fma(-lr, sign, w * decay_keep)` with
 * sign = 1 for c > 0, -1 for c < 0, else c */
HD_BOTH int lion_at(const op_update *u, const hd_hyper *h, float scale, int64_t e, float sum) {
  const float g = sum * scale, apart = g - u->s[0][e];
  const float c = fmaf(h->one_minus_beta1, apart, u->s[0][e]), m = fmaf(h->one_minus_beta2, apart, u->s[0][e]);
  const float w = fmaf(-h->lr, c > 0 ? 1 : c < 0 ? -1 : c, u->w[e] * h->decay_keep);
  u->s1[0][e] = m;
  u->w1[e] = w;
  return update_finite(sum) && update_finite(w) && update_finite(m);
}
