/* huber by groups of sixteen. */
#include "op/loss_cpu.h"

G16 g16 huber_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains) {
  const float delta = call->g->huber.delta;
  g16 a = loss16_magnitude(g16_sub(y, target));
  g16 near = g16_mul(g16_mul(g16_all(0.5f), a), a);
  g16 far = g16_mul(g16_all(delta), g16_sub(a, g16_all(0.5f * delta)));
  return g16_add(chains, g16_choose(g16_less(a, g16_all(delta)), near, far));
}

G16 g16 huber_slope(const hd_call *call, int32_t i, g16 y, g16 target) {
  const float delta = call->g->huber.delta;
  g16 d = g16_sub(y, target);
  g16 slope = g16_choose(g16_less(d, g16_all(-delta)), g16_all(-delta), d);
  return g16_choose(g16_less(g16_all(delta), d), g16_all(delta), slope);
}

LOSS16(huber)
