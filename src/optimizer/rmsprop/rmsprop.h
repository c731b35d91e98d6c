/* rmsprop: Tieleman and Hinton, lecture 6.5 of "Neural networks for machine learning", 2012; centered as in Graves,
 * "Generating sequences with recurrent neural networks", 2013. */
#pragma once

#include "kernel/unit.h"

/* w1: `g'' = fma(weight_decay, w, g')`; `v1 = fma(1 - alpha, g'' * g'', alpha * v)`; `s = v1`, or centered `a1 = fma(1
 * - alpha, g'' - a, a)` and `s = fma(-a1, a1, v1)`, 0 if that is less; `d = g'' / (sqrt(s) + eps)`, with momentum `b1 =
 * fma(momentum, b, d)` and `d = b1`; `w1 = fma(-lr, d, w)` */
HD_BOTH int rmsprop_at(const op_update *u, const hd_hyper *h, float scale, int64_t e, float sum) {
  const float g = fmaf(h->weight_decay, u->w[e], sum * scale);
  const float v = fmaf(h->one_minus_alpha, g * g, h->alpha * u->s[0][e]);
  float s = v, d, b = 0, a = 0;
  if (h->centered) {
    a = fmaf(h->one_minus_alpha, g - u->s[2][e], u->s[2][e]);
    s = fmaf(-a, a, v);
    s = s < 0 ? 0 : s;
    u->s1[2][e] = a;
  }
  d = g / (sqrtf(s) + h->eps);
  if (h->momentum != 0) {
    b = fmaf(h->momentum, u->s[1][e], d);
    d = b;
    u->s1[1][e] = b;
  }
  const float w = fmaf(-h->lr, d, u->w[e]);
  u->s1[0][e] = v;
  u->w1[e] = w;
  return update_finite(sum) && update_finite(w) && update_finite(v) && update_finite(b) && update_finite(a);
}
