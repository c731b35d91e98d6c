/* nadam by groups of sixteen. */
#include "optimizer/update_cpu.h"

G16 g16 nadam_group(update16 at, g16 seen, int rule) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  g16 raw = update16_take(u->g, at), w = update16_take(u->w, at), m = update16_take(u->s[0], at),
      v = update16_take(u->s[1], at);
  g16 g = g16_fma(g16_all(h->weight_decay), w, g16_mul(raw, g16_all(h->grad_scale)));
  seen = g16_note_not_finite(seen, raw);
  m = g16_fma(g16_all(h->one_minus_beta1), g16_sub(g, m), m);
  v = g16_fma(g16_all(h->one_minus_beta2), g16_mul(g, g), g16_mul(g16_all(h->beta2), v));
  g16 d = g16_fma(g16_all(-h->step_size), m, g16_mul(g16_all(-h->gradient_step), g));
  d = g16_div(d, g16_add(g16_div(g16_sqrt(v), g16_all(h->sqrt_bias2)), g16_all(h->eps)));
  seen = update16_put_state(u->s1[0], m, at, seen);
  seen = update16_put_state(u->s1[1], v, at, seen);
  return update16_put_weight(u->w1, g16_fma(w, g16_all(h->decay_keep), d), at, seen);
}

static int nadam(const hd_update *u) { return update16_all(u, nadam_group, 0); }

void HD_SYM(nadam_fill)(hd_kernels *table) { table->update[HD_OP_nadam] = nadam; }
