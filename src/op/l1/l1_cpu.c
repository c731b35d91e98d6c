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

LOSS16(l1)
