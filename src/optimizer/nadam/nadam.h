/* nadam: Dozat, "Incorporating Nesterov momentum into Adam", 2016. */
#pragma once

#include "kernel/unit.h"

/* w1: `g'' = fma(weight_decay, w, g')`; `m1 = fma(1 - beta1, g'' - m, m)`; `v1 = fma(1 - beta2, g'' * g'', beta2 * v)`;
 * `d = fma(-step_size, m1, -gradient_step * g'')`; `w1 = fma(w, decay_keep, d / (sqrt(v1) / sqrt_bias2 + eps))` */
HD_BOTH int nadam_at(const op_update *u, const hd_hyper *h, float scale, int64_t e, float sum) {
  const float g = fmaf(h->weight_decay, u->w[e], sum * scale);
  const float m = fmaf(h->one_minus_beta1, g - u->s[0][e], u->s[0][e]);
  const float v = fmaf(h->one_minus_beta2, g * g, h->beta2 * u->s[1][e]);
  const float d = fmaf(-h->step_size, m, -h->gradient_step * g);
  const float w = fmaf(u->w[e], h->decay_keep, d / (sqrtf(v) / h->sqrt_bias2 + h->eps));
  u->s1[0][e] = m;
  u->s1[1][e] = v;
  u->w1[e] = w;
  return update_finite(sum) && update_finite(w) && update_finite(m) && update_finite(v);
}
