/* sgd: with momentum, Nesterov's or plain, and weight decay. */
#pragma once

#include "kernel/unit.h"

/* w1: `g'' = fma(weight_decay, w, g')`; with momentum `m1 = fma(momentum, m, g'')`, `d = m1`, or with Nesterov `d =
 * fma(momentum, m1, g'')`; without momentum `d = g''`; `w1 = fma(-lr, d, w)` */
HD_BOTH int sgd_at(const op_update *u, const hd_hyper *h, float scale, int64_t e, float sum) {
  const float g = fmaf(h->weight_decay, u->w[e], sum * scale);
  float d = g, m = 0;
  if (u->s[0] && h->momentum != 0) {
    m = fmaf(h->momentum, u->s[0][e], g);
    d = h->nesterov ? fmaf(h->momentum, m, g) : m;
    u->s1[0][e] = m;
  }
  const float w = fmaf(-h->lr, d, u->w[e]);
  u->w1[e] = w;
  return update_finite(sum) && update_finite(w) && update_finite(m);
}
