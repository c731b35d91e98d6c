/* mse by groups of sixteen. */
#include "op/loss_cpu.h"

G16 g16 mse_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains) {
  g16 d = g16_sub(y, target);
  return g16_fma(d, d, chains);
}

G16 g16 mse_slope(const hd_call *call, int32_t i, g16 y, g16 target) {
  g16 d = g16_sub(y, target);
  return g16_add(d, d);
}

static void mse(const hd_call *call) { loss16_sum(call, mse_term); }
static void mse_dx(const hd_call *call) { loss16_divide(call, mse_slope); }

void HD_SYM(mse_fill)(hd_kernels *table) {
  table->run[HD_OP_mse] = mse;
  table->run[HD_OP_mse_dx] = mse_dx;
}
