/* mish: y = x * tanh(softplus(x)). With e = exp(-|x|) the tanh is a quotient of polynomials of e, which loses nothing
 * where it is small. */
#pragma once

#include "op/elementwise.h"

HD_BOTH real mish_e(real x) { return REAL_EXP(x < 0 ? x : 0 - x); }

/* tanh(log(1 + exp(x))) */
HD_BOTH real mish_tanh(real x, real e) {
  const real n = x < 0 ? e * (e + 2) : REAL_FMA(2, e, 1);
  return n / (n + (x < 0 ? 2 : 2 * e * e));
}

/* y: e = `exp(x < 0 ? x : 0 - x)`; n = `x < 0 ? e * (e + 2) : fma(2, e, 1)`; t = `n / (n + (x < 0 ? 2 : (2 * e) * e))`;
 * `x * t` */
HD_BOTH real mish_of(const hd_geom *g, real x) { return x * mish_tanh(x, mish_e(x)); }

/* dx: s = `(x < 0 ? e : 1) / (1 + e)`; `dy * fma(x * s, fma(-t, t, 1), t)` */
HD_BOTH real mish_dx_of(const hd_geom *g, real dy, real x) {
  const real e = mish_e(x), t = mish_tanh(x, e), s = (x < 0 ? e : 1) / (1 + e);
  return dy * REAL_FMA(x * s, REAL_FMA(-t, t, 1), t);
}

OP_ELEMENTWISE(mish)
