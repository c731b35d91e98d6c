/* adam: Kingma and Ba, "Adam: a method for stochastic optimization", 2015; weight decay is added to the gradient. */
#pragma once

#include "kernel/unit.h"

/* w1: `g'' = fma(weight_decay, w, g')`; `m1 = fma(1 - beta1, g'' - m, m)`; `v1 = fma(1 - beta2, g'' * g'', beta2 * v)`;
 * `w1 = fma(-step_size, m1 / (sqrt(v1) / sqrt_bias2 + eps), w)` */
/* With g'' in g. */
HD_BOTH int adam_step(const op_update *u, const hd_hyper *h, int64_t e, float sum, float g, float w) {
  const float m = fmaf(h->one_minus_beta1, g - u->s[0][e], u->s[0][e]);
  const float v = fmaf(h->one_minus_beta2, g * g, h->beta2 * u->s[1][e]);
  const float w1 = fmaf(-h->step_size, m / (sqrtf(v) / h->sqrt_bias2 + h->eps), w);
  u->s1[0][e] = m;
  u->s1[1][e] = v;
  u->w1[e] = w1;
  return update_finite(sum) && update_finite(w1) && update_finite(m) && update_finite(v);
}

HD_BOTH int adam_at(const op_update *u, const hd_hyper *h, float scale, int64_t e, float sum) {
  return adam_step(u, h, e, sum, fmaf(h->weight_decay, u->w[e], sum * scale), u->w[e]);
}
