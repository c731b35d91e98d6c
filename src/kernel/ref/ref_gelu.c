/* gelu: x times the normal distribution's share below x; with `approximate`, its form in tanh. */
#include "kernel/ref/gelu_constants.h"
#include "kernel/ref/ref_elementwise.h"

/* The normal distribution's share below x: (1 + erf(x * sqrt(1/2))) * 0.5. */
static real share_below(real x) { return (1 + REAL_ERF(x * (real)HD_SQRT_HALF)) * (real)0.5; }

/* The argument of the tanh in the tanh form: (sqrt(2/pi) * x) * fma(c, x * x, 1). */
static real tanh_inner(real x) { return (real)HD_SQRT_2_BY_PI * x * REAL_FMA((real)HD_GELU_CUBIC, x * x, 1); }

/* y = x * share; tanh form: y = (0.5 * x) * (1 + tanh(inner)). */
static real forward(const hd_geom *g, real x) {
  if (g->approximate)
    return (real)0.5 * x * (1 + REAL_TANH(tanh_inner(x)));
  return x * share_below(x);
}

/* dx = dy * fma(x, density, share), density = exp((x * x) * -0.5) * (1 / sqrt(2 pi)). tanh form: t = tanh(inner); dx =
 * dy * fma((0.5 * x) * fma(-t, t, 1), sqrt(2/pi) * fma(3 c, x * x, 1), 0.5 * (1 + t)). */
static real backward(const hd_geom *g, real dy, real x) {
  if (!g->approximate) {
    real density = REAL_EXP(x * x * (real)-0.5) * (real)HD_ONE_BY_SQRT_2PI;
    return dy * REAL_FMA(x, density, share_below(x));
  }
  real t = REAL_TANH(tanh_inner(x));
  real slope = (real)HD_SQRT_2_BY_PI * REAL_FMA((real)(3 * HD_GELU_CUBIC), x * x, 1);
  return dy * REAL_FMA((real)0.5 * x * REAL_FMA(-t, t, 1), slope, (real)0.5 * (1 + t));
}

void REF(gelu)(const hd_call *call) { each(call, forward); }
void REF(gelu_dx)(const hd_call *call) { each_dx(call, backward); }
