/* mul by groups of sixteen. */
#include "op/binary_cpu.h"

G16 g16 mul_16(g16 a, g16 b) { return g16_mul(a, b); }
G16 g16 mul_slope16(g16 dy, g16 a, g16 b, int part) { return g16_mul(dy, part ? a : b); }

BINARY16(mul)
