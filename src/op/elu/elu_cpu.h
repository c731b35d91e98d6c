/* exp(x) - 1 by groups of sixteen, for elu and selu. */
#pragma once

#include "kernel/cpu/each16.h"

G16 g16 g16_exp_minus_1(g16 x) {
  const g16 t = g16_tanh(g16_mul(x, g16_all(0.5f)));
  return g16_div(g16_add(t, t), g16_sub(g16_all(1), t));
}
