/* adam and adamw by groups of sixteen. */
#include "optimizer/update_cpu.h"

G16 g16 adam_group(update16 at, g16 seen, int decoupled) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  g16 raw = update16_take(u->g, at), w = update16_take(u->w, at), m = update16_take(u->s[0], at),
      v = update16_take(u->s[1], at);
  g16 g = g16_mul(raw, g16_all(h->grad_scale));
  seen = g16_note_not_finite(seen, raw);
  if (decoupled)
    w = g16_mul(w, g16_all(h->decay_keep));
  else
    g = g16_fma(g16_all(h->weight_decay), w, g);
  m = g16_fma(g16_all(h->one_minus_beta1), g16_sub(g, m), m);
  v = g16_fma(g16_all(h->one_minus_beta2), g16_mul(g, g), g16_mul(g16_all(h->beta2), v));
  g16 scale = g16_add(g16_div(g16_sqrt(v), g16_all(h->sqrt_bias2)), g16_all(h->eps));
  w = g16_fma(g16_all(-h->step_size), g16_div(m, scale), w);
  seen = update16_put(u->s1[0], m, at, seen);
  seen = update16_put(u->s1[1], v, at, seen);
  return update16_put(u->w1, w, at, seen);
}

static int adam(const hd_update *u) { return update16_all(u, adam_group, 0); }
static int adamw(const hd_update *u) { return update16_all(u, adam_group, 1); }

void HD_SYM(adam_fill)(hd_kernels *table) {
  table->update[HD_OP_adam] = adam;
  table->update[HD_OP_adamw] = adamw;
}
