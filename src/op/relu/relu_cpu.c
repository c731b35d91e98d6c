/* relu by groups of sixteen: x < 0 ? 0 : x, so a NaN passes and -0 stays. */
#include "kernel/cpu/each16.h"

G16 g16 relu16(const hd_geom *g, g16 x) {
  (void)g;
  return g16_relu(x);
}

G16 g16 relu_back(const hd_geom *g, g16 dy, g16 y) {
  (void)g;
  return g16_choose(g16_less(g16_zero(), y), dy, g16_zero());
}

static void relu(const hd_call *call) { g16_each(call, relu16); }
static void relu_dx(const hd_call *call) { g16_each_dx(call, relu_back); }

void HD_SYM(relu_fill)(hd_kernels *table) {
  table->run[HD_OP_relu] = relu;
  table->run[HD_OP_relu_dx] = relu_dx;
}
