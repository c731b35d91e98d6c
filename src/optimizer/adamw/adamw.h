/* adamw: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019. */
#pragma once

#include "optimizer/adam/adam.h"

/* w1: as `adam`, of `g'' = g'` and `w * decay_keep` in place of w */
HD_BOTH int adamw_at(const op_update *u, const hd_hyper *h, float scale, int64_t e, float sum) {
  return adam_step(u, h, e, sum, sum * scale, u->w[e] * h->decay_keep);
}
