/* l1 by groups of sixteen. */
#include "op/loss_cpu.h"

G16 g16 l1_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains) {
  return g16_add(chains, loss16_magnitude(g16_sub(y, target)));
}

G16 g16 l1_slope(const hd_call *call, int32_t i, g16 y, g16 target) {
  g16 d = g16_sub(y, target);
  g16 slope = g16_choose(g16_less(d, g16_zero()), g16_all(-1), d);
  return g16_choose(g16_less(g16_zero(), d), g16_all(1), slope);
}

static void l1(const hd_call *call) { loss16_sum(call, l1_term); }
static void l1_dx(const hd_call *call) { loss16_divide(call, l1_slope); }

void HD_SYM(l1_fill)(hd_kernels *table) {
  table->run[HD_OP_l1] = l1;
  table->run[HD_OP_l1_dx] = l1_dx;
}
