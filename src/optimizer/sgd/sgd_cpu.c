/* sgd by groups of sixteen. */
#include "optimizer/update_cpu.h"

G16 g16 sgd_group(update16 at, g16 seen, int with_state) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  g16 raw = update16_take(u->g, at), w = update16_take(u->w, at);
  g16 g = g16_fma(g16_all(h->weight_decay), w, g16_mul(raw, g16_all(h->grad_scale))), d = g;
  seen = g16_note_not_finite(seen, raw);
  if (with_state) {
    g16 m = g16_fma(g16_all(h->momentum), update16_take(u->s[0], at), g);
    d = h->nesterov ? g16_fma(g16_all(h->momentum), m, g) : m;
    seen = update16_put_state(u->s1[0], m, at, seen);
  }
  return update16_put_weight(u->w1, g16_fma(g16_all(-h->lr), d, w), at, seen);
}

static int sgd_plain(const hd_update *u) { return update16_all(u, sgd_group, 0); }
static int sgd_momentum(const hd_update *u) { return update16_all(u, sgd_group, 1); }
static int sgd(const hd_update *u) { return u->s[0] && u->hyper->momentum != 0 ? sgd_momentum(u) : sgd_plain(u); }

void HD_SYM(sgd_fill)(hd_kernels *table) { table->update[HD_OP_sgd] = sgd; }
