/* swish: y = x * sigmoid(x), in PyTorch SiLU. */
#pragma once

#include "op/sigmoid/sigmoid.h"

/* y: `x * s`, s being what `sigmoid` computes of x */
HD_BOTH real swish_of(const hd_geom *g, real x) { return x * sigmoid_of(g, x); }

/* dx: `dy * (s * fma(x, 1 - s, 1))` */
HD_BOTH real swish_dx_of(const hd_geom *g, real dy, real x) {
  const real s = sigmoid_of(g, x);
  return dy * (s * REAL_FMA(x, 1 - s, 1));
}

OP_ELEMENTWISE(swish)
