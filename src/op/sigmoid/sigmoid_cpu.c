/* sigmoid by groups of sixteen. */
#include "kernel/cpu/each16.h"

G16 g16 sigmoid16(const hd_geom *g, g16 x) {
  (void)g;
  g16_mask below = g16_less(x, g16_zero());
  g16 e = g16_exp(g16_choose(below, x, g16_minus(x)));
  return g16_div(g16_choose(below, e, g16_all(1)), g16_add(g16_all(1), e));
}

G16 g16 sigmoid_back(const hd_geom *g, g16 dy, g16 y) {
  (void)g;
  return g16_mul(dy, g16_mul(y, g16_sub(g16_all(1), y)));
}

static void sigmoid(const hd_call *call) { g16_each(call, sigmoid16); }
static void sigmoid_dx(const hd_call *call) { g16_each_dx(call, sigmoid_back); }

void HD_SYM(sigmoid_fill)(hd_kernels *table) {
  table->run[HD_OP_sigmoid] = sigmoid;
  table->run[HD_OP_sigmoid_dx] = sigmoid_dx;
}
