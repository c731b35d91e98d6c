/* prelu: a leaky ReLU whose slope is trained; one weight, or one for each channel. */
#pragma once

#include "kernel/unit.h"

HD_BOTH real prelu_weight(const op_call *c, int64_t i) {
  const hd_geom *g = op_geom(c);
  return op_param(c, 1)[g->prelu.num_parameters > 1 ? i % g->ci : 0];
}

/* y: `x < 0 ? weight * x : x`, with the only weight or the channel's */
HD_BOTH int64_t prelu_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void prelu_at(const op_call *c, int64_t n, int64_t i) {
  const real x = op_in(c, 0, n)[i];
  op_out(c, 0, n)[i] = x < 0 ? prelu_weight(c, i) * x : x;
}

/* dx: `x > 0 ? dy : weight * dy` */
HD_BOTH int64_t prelu_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void prelu_dx_at(const op_call *c, int64_t n, int64_t i) {
  const real dy = op_in(c, 0, n)[i];
  op_out(c, 0, n)[i] = op_in(c, 2, n)[i] > 0 ? dy : prelu_weight(c, i) * dy;
}

/* dw: per shard, `dw = +0`; samples ascending. Of a channel: pixels ascending: `dw = fma(dy, x > 0 ? 0 : x, dw)`. Of
 * the only weight: sum = 16 chains of `fma(dy, x > 0 ? 0 : x, s)` over the sample's elements and the tree; `dw = dw +
 * sum` */
HD_BOTH int64_t prelu_dw_count(const hd_geom *g) { return g->prelu.num_parameters; }
HD_BOTH void prelu_dw_at(const op_call *c, int64_t k, int64_t channel) {
  const hd_geom *g = op_geom(c);
  real dw = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++) {
    const real *x = op_in(c, 0, n), *dy = op_in(c, 1, n);
    if (g->prelu.num_parameters > 1) {
      for (int64_t i = channel; i < op_elems(g); i += g->ci)
        dw = REAL_FMA(dy[i], x[i] > 0 ? 0 : x[i], dw);
    } else {
      OP_CHAINS16(sum, op_elems(g), REAL_FMA(dy[i], x[i] > 0 ? 0 : x[i], s));
      dw = dw + sum;
    }
  }
  op_sums(c, 0, k)[channel] = dw;
}
