/* div by groups of sixteen. */
#include "op/binary_cpu.h"

G16 g16 div_16(g16 a, g16 b) { return g16_div(a, b); }
G16 g16 div_slope16(g16 dy, g16 a, g16 b, int part) {
  return part ? g16_sub(g16_zero(), g16_mul(dy, g16_div(g16_div(a, b), b))) : g16_div(dy, b);
}

BINARY16(div)
