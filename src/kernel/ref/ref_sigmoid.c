/* sigmoid: y = 1 / (1 + exp(-x)). */
#include "kernel/ref/ref_elementwise.h"

/* e = exp(-|x|); y = (x < 0 ? e : 1) / (1 + e): no exponential overflows. */
static real forward(const hd_geom *g, real x) {
  real e = REAL_EXP(x < 0 ? x : 0 - x);
  return (x < 0 ? e : 1) / (1 + e);
}

/* dx = dy * (y * (1 - y)) */
static real backward(const hd_geom *g, real dy, real y) { return dy * (y * (1 - y)); }

void REF(sigmoid)(const hd_call *call) { each(call, forward); }
void REF(sigmoid_dx)(const hd_call *call) { each_dx(call, backward); }
