/* sigmoid by groups of sixteen. */
#include "op/sigmoid/sigmoid_cpu.h"

G16 g16 sigmoid_16(const hd_geom *g, g16 x) { return g16_sigmoid(x); }

G16 g16 sigmoid_dx_16(const hd_geom *g, g16 dy, g16 y) { return g16_mul(dy, g16_mul(y, g16_sub(g16_all(1), y))); }

EACH16(sigmoid)
