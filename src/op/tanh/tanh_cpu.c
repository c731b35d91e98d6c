/* tanh by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 tanh_16(const hd_geom *g, g16 x) { return g16_tanh(x); }

G16 g16 tanh_dx_16(const hd_geom *g, g16 dy, g16 y) { return g16_mul(dy, g16_one_minus_square(y)); }

EACH16(tanh)
