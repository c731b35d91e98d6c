/* swish by groups of sixteen. */
#include "op/sigmoid/sigmoid_cpu.h"

G16 g16 swish_16(const hd_geom *g, g16 x) { return g16_mul(x, g16_sigmoid(x)); }

G16 g16 swish_dx_16(const hd_geom *g, g16 dy, g16 x) {
  const g16 s = g16_sigmoid(x);
  return g16_mul(dy, g16_mul(s, g16_fma(x, g16_sub(g16_all(1), s), g16_all(1))));
}

EACH16(swish)
