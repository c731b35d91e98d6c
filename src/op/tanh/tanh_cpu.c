/* tanh by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 tanh16(const hd_geom *g, g16 x) {
  (void)g;
  return g16_tanh(x);
}

G16 g16 tanh_back(const hd_geom *g, g16 dy, g16 y) {
  (void)g;
  return g16_mul(dy, g16_one_minus_square(y));
}

static void tanh_forward(const hd_call *call) { g16_each(call, tanh16); }
static void tanh_dx(const hd_call *call) { g16_each_dx(call, tanh_back); }

void HD_SYM(tanh_fill)(hd_kernels *table) {
  table->run[HD_OP_tanh] = tanh_forward;
  table->run[HD_OP_tanh_dx] = tanh_dx;
}
