/* leaky_relu by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 leaky16(const hd_geom *g, g16 x) {
  return g16_choose(g16_less(x, g16_zero()), g16_mul(g16_all(g->negative_slope), x), x);
}

G16 g16 leaky_back(const hd_geom *g, g16 dy, g16 y) {
  return g16_choose(g16_less(g16_zero(), y), dy, g16_mul(g16_all(g->negative_slope), dy));
}

static void leaky_relu(const hd_call *call) { g16_each(call, leaky16); }
static void leaky_relu_dx(const hd_call *call) { g16_each_dx(call, leaky_back); }

void HD_SYM(leaky_relu_fill)(hd_kernels *table) {
  table->run[HD_OP_leaky_relu] = leaky_relu;
  table->run[HD_OP_leaky_relu_dx] = leaky_relu_dx;
}
