/* Optimizer updates: sgd, adam, adamw, a group of elements at a time.
 *
 * Elements are independent, by the formulas above hd_update. Values that are not finite are collected in a group,
 * which is checked once at the end; lanes beyond a short tail are left out, as zeros there may divide by zero. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

/* The part of one update that a group of elements sees: `left` elements from `i`, 16 or more for a whole group. */
typedef struct span {
  const hd_update *u;
  int64_t i, left;
} span;

G16 g16 take(const float *from, span at) { return g16_load_some(from + at.i, at.left); }

/* Writes a result and notes what is not finite in it. */
G16 g16 put(float *to, g16 value, span at, g16 seen) {
  g16_store_some(to + at.i, value, at.left);
  if (at.left < 16)
    value = g16_choose(g16_first((int)at.left), value, g16_zero());
  return g16_note_not_finite(seen, value);
}

G16 g16 sgd_group(span at, g16 seen, int with_state) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  g16 raw = take(u->g, at), w = take(u->w, at);
  g16 g = g16_fma(g16_all(h->weight_decay), w, g16_mul(raw, g16_all(h->grad_scale))), d = g;
  seen = g16_note_not_finite(seen, raw);
  if (with_state) {
    g16 m = g16_fma(g16_all(h->momentum), take(u->m, at), g);
    d = h->nesterov ? g16_fma(g16_all(h->momentum), m, g) : m;
    seen = put(u->m1, m, at, seen);
  }
  return put(u->w1, g16_fma(g16_all(-h->lr), d, w), at, seen);
}

G16 g16 adam_group(span at, g16 seen, int decoupled) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  g16 raw = take(u->g, at), w = take(u->w, at), m = take(u->m, at), v = take(u->v, at);
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
  seen = put(u->m1, m, at, seen);
  seen = put(u->v1, v, at, seen);
  return put(u->w1, w, at, seen);
}

typedef enum rule { SGD, MOMENTUM, ADAM, ADAMW } rule;

G16 g16 group(span at, g16 seen, rule by) {
  return by <= MOMENTUM ? sgd_group(at, seen, by == MOMENTUM) : adam_group(at, seen, by == ADAMW);
}

/* The rule is a constant where this is inlined. Of the scalars a copy is taken, which no store can change: they stay in
 * registers. */
G16 int all_groups(const hd_update *given, rule by) {
  const hd_hyper hyper = *given->hyper;
  hd_update u = *given;
  u.hyper = &hyper;
  g16 seen = g16_zero();
  int64_t i = 0;
  for (; i + 16 <= u.count; i += 16)
    seen = group((span){&u, i, 16}, seen, by);
  if (i < u.count)
    seen = group((span){&u, i, u.count - i}, seen, by);
  return g16_any_noted(seen);
}

static int sgd_plain(const hd_update *u) { return all_groups(u, SGD); }
static int sgd_momentum(const hd_update *u) { return all_groups(u, MOMENTUM); }
static int sgd(const hd_update *u) { return u->m ? sgd_momentum(u) : sgd_plain(u); }
static int adam(const hd_update *u) { return all_groups(u, ADAM); }
static int adamw(const hd_update *u) { return all_groups(u, ADAMW); }

void HD_SYM(update_fill)(hd_kernels *table) {
  table->update[HD_OP_sgd] = sgd;
  table->update[HD_OP_adam] = adam;
  table->update[HD_OP_adamw] = adamw;
}
