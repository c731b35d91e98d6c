/* adamw: Loshchilov and Hutter, "Decoupled weight decay regularization", 2019. */
#pragma once

#include "op/adam/adam.h"

/* adam's step of g * scale and w * decay_keep. */
HD_BOTH int adamw_at(const op_update *u, const hd_hyper *h, float scale, int64_t e, float sum) {
  return adam_step(u, h, e, sum, sum * scale, u->w[e] * h->decay_keep);
}
