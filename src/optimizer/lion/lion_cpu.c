/* lion by groups of sixteen. */
#include "optimizer/update_cpu.h"

G16 g16 lion_group(update16 at, g16 seen, int rule) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  g16 raw = update16_take(u->g, at), w = update16_take(u->w, at), m = update16_take(u->s[0], at);
  g16 apart = g16_sub(g16_mul(raw, g16_all(h->grad_scale)), m);
  g16 c = g16_fma(g16_all(h->one_minus_beta1), apart, m), zero = g16_zero();
  g16 sign = g16_choose(g16_less(zero, c), g16_all(1), g16_choose(g16_less(c, zero), g16_all(-1), c));
  seen = g16_note_not_finite(seen, raw);
  seen = update16_put_state(u->s1[0], g16_fma(g16_all(h->one_minus_beta2), apart, m), at, seen);
  return update16_put_weight(u->w1, g16_fma(g16_all(-h->lr), sign, g16_mul(w, g16_all(h->decay_keep))), at, seen);
}

static int lion(const hd_update *u) { return update16_all(u, lion_group, 0); }

void HD_SYM(lion_fill)(hd_kernels *table) { table->update[HD_OP_lion] = lion; }
