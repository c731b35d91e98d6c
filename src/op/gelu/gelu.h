/* gelu: x times the share of the normal distribution below x; with `approximate`, its form in tanh. */
#pragma once

#include "op/elementwise.h"

/* Constants in double: each compilation rounds them to its type. */
#define HD_SQRT_HALF 0.70710678118654752
#define HD_ONE_BY_SQRT_2PI 0.39894228040143268
#define HD_SQRT_2_BY_PI 0.79788456080286536
#define HD_GELU_CUBIC 0.044715

/* The share of the normal distribution below x. */
HD_BOTH real gelu_share(real x) { return (1 + REAL_ERF(x * (real)HD_SQRT_HALF)) * (real)0.5; }

/* The argument of the tanh. */
HD_BOTH real gelu_inner(real x) { return (real)HD_SQRT_2_BY_PI * x * REAL_FMA((real)HD_GELU_CUBIC, x * x, 1); }

/* y: share = `(1 + erf(x * sqrt(1/2))) * 0.5`; `x * share`. With `approximate: tanh`: inner = `(sqrt(2/pi) * x) *
 * fma(0.044715, x * x, 1)`; `(0.5 * x) * (1 + tanh(inner))` */
HD_BOTH real gelu_of(const hd_geom *g, real x) {
  if (g->gelu.approximate)
    return (real)0.5 * x * (1 + REAL_TANH(gelu_inner(x)));
  return x * gelu_share(x);
}

/* dx: density = `exp((x * x) * -0.5) * (1 / sqrt(2 pi))`; `dy * fma(x, density, share)`. With `approximate: tanh`: t =
 * `tanh(inner)`; `dy * fma((0.5 * x) * fma(-t, t, 1), sqrt(2/pi) * fma(3 * 0.044715, x * x, 1), 0.5 * (1 + t))` */
HD_BOTH real gelu_dx_of(const hd_geom *g, real dy, real x) {
  if (!g->gelu.approximate) {
    const real density = REAL_EXP(x * x * (real)-0.5) * (real)HD_ONE_BY_SQRT_2PI;
    return dy * REAL_FMA(x, density, gelu_share(x));
  }
  const real t = REAL_TANH(gelu_inner(x));
  const real slope = (real)HD_SQRT_2_BY_PI * REAL_FMA((real)(3 * HD_GELU_CUBIC), x * x, 1);
  return dy * REAL_FMA((real)0.5 * x * REAL_FMA(-t, t, 1), slope, (real)0.5 * (1 + t));
}

OP_ELEMENTWISE(gelu)
