/* elu: x where it is positive, alpha * (exp(x) - 1) elsewhere; a NaN passes. */
#pragma once

#include "op/elementwise.h"

/* exp(x) - 1 for x <= 0, small x included. */
HD_BOTH real elu_exp_minus_1(real x) {
  const real t = REAL_TANH(x * (real)0.5);
  return (t + t) / (1 - t);
}

/* y: t = `tanh(x * 0.5)`; `x < 0 ? alpha * ((t + t) / (1 - t)) : x` */
HD_BOTH real elu_of(const hd_geom *g, real x) { return x < 0 ? g->elu.alpha * elu_exp_minus_1(x) : x; }

/* dx: `y > 0 ? dy : dy * (y + alpha)` */
HD_BOTH real elu_dx_of(const hd_geom *g, real dy, real y) { return y > 0 ? dy : dy * (y + g->elu.alpha); }

OP_ELEMENTWISE(elu)
