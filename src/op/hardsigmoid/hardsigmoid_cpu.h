/* hardsigmoid by groups of sixteen, for hardswish too. */
#pragma once

#include "kernel/cpu/each16.h"

G16 g16 hardsigmoid_16(const hd_geom *g, g16 x) {
  const g16 v = g16_add(x, g16_all(3)), six = g16_all(6);
  return g16_div(g16_relu(g16_choose(g16_less(six, v), six, v)), six);
}
