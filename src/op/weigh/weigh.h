/* weigh: each element times the weight of its sample, which follows the sample's target. It is no layer: where samples
 * have weights, it comes after the loss and after the loss's gradient. */
#pragma once

#include "kernel/unit.h"

/* y: `x * w`, w being the weight of the sample */
HD_BOTH int64_t weigh_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void weigh_at(const op_call *c, int64_t n, int64_t i) {
  op_out(c, 0, n)[i] = op_in(c, 0, n)[i] * op_in(c, 1, n)[op_geom(c)->weigh.at];
}
