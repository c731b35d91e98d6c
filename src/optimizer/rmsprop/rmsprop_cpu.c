/* rmsprop by groups of sixteen. */
#include "optimizer/update_cpu.h"

enum { MOMENTUM = 1, CENTERED = 2 };

G16 g16 rmsprop_group(update16 at, g16 seen, int rule) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  const g16 left = g16_all(h->one_minus_alpha);
  g16 raw = update16_take(u->g, at), w = update16_take(u->w, at), v = update16_take(u->s[0], at);
  g16 g = g16_fma(g16_all(h->weight_decay), w, g16_mul(raw, g16_all(h->grad_scale)));
  seen = g16_note_not_finite(seen, raw);
  v = g16_fma(left, g16_mul(g, g), g16_mul(g16_all(h->alpha), v));
  g16 s = v;
  if (rule & CENTERED) {
    g16 a = update16_take(u->s[2], at);
    a = g16_fma(left, g16_sub(g, a), a);
    s = g16_fma(g16_mul(a, g16_all(-1)), a, v);
    s = g16_choose(g16_less(s, g16_zero()), g16_zero(), s);
    seen = update16_put_state(u->s1[2], a, at, seen);
  }
  g16 d = g16_div(g, g16_add(g16_sqrt(s), g16_all(h->eps)));
  if (rule & MOMENTUM) {
    d = g16_fma(g16_all(h->momentum), update16_take(u->s[1], at), d);
    seen = update16_put_state(u->s1[1], d, at, seen);
  }
  seen = update16_put_state(u->s1[0], v, at, seen);
  return update16_put_weight(u->w1, g16_fma(g16_all(-h->lr), d, w), at, seen);
}

static int plain(const hd_update *u) { return update16_all(u, rmsprop_group, 0); }
static int momentum(const hd_update *u) { return update16_all(u, rmsprop_group, MOMENTUM); }
static int centered(const hd_update *u) { return update16_all(u, rmsprop_group, CENTERED); }
static int both(const hd_update *u) { return update16_all(u, rmsprop_group, MOMENTUM | CENTERED); }

static int rmsprop(const hd_update *u) {
  const int has_momentum = u->hyper->momentum != 0;
  return u->hyper->centered ? (has_momentum ? both : centered)(u) : (has_momentum ? momentum : plain)(u);
}

void HD_SYM(rmsprop_fill)(hd_kernels *table) { table->update[HD_OP_rmsprop] = rmsprop; }
