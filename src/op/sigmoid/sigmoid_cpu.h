/* The chain of sigmoid for sixteen elements. */
#pragma once

#include "kernel/cpu/each16.h"

G16 g16 g16_sigmoid(g16 x) {
  g16 e = g16_exp_minus_abs(x), one = g16_all(1);
  return g16_div(g16_choose(g16_less(x, g16_zero()), e, one), g16_add(one, e));
}
