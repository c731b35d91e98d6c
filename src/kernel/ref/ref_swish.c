/* swish: y = x * sigmoid(x), in PyTorch SiLU. */
#include "kernel/ref/ref_elementwise.h"

/* e = exp(-|x|); s = (x < 0 ? e : 1) / (1 + e): no exponential overflows. */
static real share_of(real x) {
  real e = REAL_EXP(x < 0 ? x : 0 - x);
  return (x < 0 ? e : 1) / (1 + e);
}

/* y = x * s */
static real forward(const hd_geom *g, real x) { return x * share_of(x); }

/* dx = dy * (s * fma(x, 1 - s, 1)) */
static real backward(const hd_geom *g, real dy, real x) {
  real s = share_of(x);
  return dy * (s * REAL_FMA(x, 1 - s, 1));
}

void REF(swish)(const hd_call *call) { each(call, forward); }
void REF(swish_dx)(const hd_call *call) { each_dx(call, backward); }
