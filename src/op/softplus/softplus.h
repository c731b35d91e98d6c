/* softplus: log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold. */
#pragma once

#include "op/sigmoid/sigmoid.h"

/* log(1 + e) for 0 <= e <= 1, small e included: 2 artanh(s) with s = e / (2 + e) by its series, s <= 1/3. */
HD_BOTH real softplus_log_1_plus(real e) {
  const real s = e / (2 + e), z = s * s;
  real p = (real)(2.0 / 19);
  HD_UNROLL
  for (int k = 17; k >= 3; k -= 2)
    p = REAL_FMA(p, z, (real)2 / (real)k);
  return REAL_FMA(s * z, p, s + s);
}

/* y: z = `beta * x`; e = `exp(z < 0 ? z : 0 - z)`; `z > threshold ? x : ((z < 0 ? 0 : z) + log1p(e)) / beta`; log1p(e):
 * s = `e / (2 + e)`, q = `s * s`, `fma(s * q, P(q), s + s)`, P being the polynomial 2/3, 2/5, ... 2/19 by Horner */
HD_BOTH real softplus_of(const hd_geom *g, real x) {
  const real z = g->softplus.beta * x, rest = softplus_log_1_plus(REAL_EXP(z < 0 ? z : 0 - z));
  return z > g->softplus.threshold ? x : ((z < 0 ? 0 : z) + rest) / g->softplus.beta;
}

/* dx: `z > threshold ? dy : dy * s`, s being what `sigmoid` computes of z */
HD_BOTH real softplus_dx_of(const hd_geom *g, real dy, real x) {
  const real z = g->softplus.beta * x;
  return z > g->softplus.threshold ? dy : dy * sigmoid_of(g, z);
}

OP_ELEMENTWISE(softplus)
