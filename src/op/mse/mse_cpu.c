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

LOSS16(mse)
