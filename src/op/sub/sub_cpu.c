/* sub by groups of sixteen. */
#include "op/binary_cpu.h"

G16 g16 sub_16(g16 a, g16 b) { return g16_sub(a, b); }
G16 g16 sub_slope16(g16 dy, g16 a, g16 b, int part) { return part ? g16_sub(g16_zero(), dy) : dy; }

BINARY16(sub)
