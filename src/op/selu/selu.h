/* selu: an elu with a factor, which keeps mean and variance of what passes many layers. */
#pragma once

#include "op/elu/elu.h"

/* Constants in double: each compilation rounds them to its type. */
#define HD_SELU_SCALE 1.0507009873554805
#define HD_SELU_ALPHA (1.0507009873554805 * 1.6732632423543773)

/* y: t = `tanh(x * 0.5)`; `x < 0 ? (scale * alpha) * ((t + t) / (1 - t)) : scale * x`, scale being 1.0507009873554805
 * and alpha 1.6732632423543773 */
HD_BOTH real selu_of(const hd_geom *g, real x) {
  return x < 0 ? (real)HD_SELU_ALPHA * elu_exp_minus_1(x) : (real)HD_SELU_SCALE * x;
}

/* dx: `y > 0 ? scale * dy : dy * (y + scale * alpha)` */
HD_BOTH real selu_dx_of(const hd_geom *g, real dy, real y) {
  return y > 0 ? (real)HD_SELU_SCALE * dy : dy * (y + (real)HD_SELU_ALPHA);
}

OP_ELEMENTWISE(selu)
