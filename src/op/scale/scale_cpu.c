/* scale by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 scale_16(const hd_geom *g, g16 x) { return g16_mul(g16_all(g->scale.factor), x); }

G16 g16 scale_dx_16(const hd_geom *g, g16 dy, g16 y) { return g16_mul(g16_all(g->scale.factor), dy); }

EACH16(scale)
