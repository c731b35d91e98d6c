/* muon: K. Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024. The direction of a weight's
 * update is made orthogonal as a whole matrix, behind this step for single elements: exec/cpu/matrices_phase.c. */
#pragma once

#include "kernel/unit.h"

/* w1: `m1 = fma(momentum, m, g')`; `d = m1`, or with Nesterov `d = fma(momentum, m1, g')`; x = d made orthogonal
 * (below); `w1 = w * keep - lr * x` */
/* d in the place of w1. */
HD_BOTH int muon_at(const op_update *u, const hd_hyper *h, float scale, int64_t e, float sum) {
  const float g = sum * scale, m = fmaf(h->momentum, u->s[0][e], g);
  const float d = h->nesterov ? fmaf(h->momentum, m, g) : m;
  u->s1[0][e] = m;
  u->w1[e] = d;
  return update_finite(sum) && update_finite(m) && update_finite(d);
}
