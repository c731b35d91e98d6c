/* The chain of sigmoid for sixteen elements. */
#pragma once

#include "kernel/cpu/each16.h"

G16 g16 g16_sigmoid(g16 x) {
  g16_mask below = g16_less(x, g16_zero());
  g16 e = g16_exp(g16_choose(below, x, g16_minus(x)));
  return g16_div(g16_choose(below, e, g16_all(1)), g16_add(g16_all(1), e));
}
