/* relu by groups of sixteen: x < 0 ? 0 : x, so a NaN passes and -0 stays. */
#include "kernel/cpu/each16.h"

G16 g16 relu_16(const hd_geom *g, g16 x) { return g16_relu(x); }

G16 g16 relu_dx_16(const hd_geom *g, g16 dy, g16 y) { return g16_choose(g16_less(g16_zero(), y), dy, g16_zero()); }

EACH16(relu)
