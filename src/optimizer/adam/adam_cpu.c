/* adam and adamw by groups of sixteen. */
#include <stdbool.h>

#include "kernel/cpu/blocks.h"
#include "optimizer/update_cpu.h"

enum { DECOUPLED = 1, BY_DIVIDING = 2 };

/* x / divisor, correctly rounded, for x that is not negative: the divider is what an update waits for. q is off by less
 * than 1.5 ulp. A quotient is never halfway between two numbers, and at least 2^-24 / d ulp away from there, d the
 * divisor's significand; if it is that close q is half an ulp off, its remainder is exact, and what is rounded at the
 * end is off by half of d * 2^-25 ulp, which is less, d being below 2. The divisor is near 1, so that nothing
 * underflows, see divides(). */
G16 g16 adam_quotient(g16 x, float divisor) {
  const g16 reciprocal = g16_all(1 / divisor), q = g16_mul(x, reciprocal);
  const g16 better = g16_fma(g16_fma(q, g16_all(-divisor), x), reciprocal, q);
  return g16_choose(g16_less(q, g16_all(INFINITY)), better, q);
}

G16 g16 adam_group(update16 at, g16 seen, int rule) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  g16 raw = update16_take(u->g, at), w = update16_take(u->w, at), m = update16_take(u->s[0], at),
      v = update16_take(u->s[1], at);
  g16 g = g16_mul(raw, g16_all(h->grad_scale));
  seen = g16_note_not_finite(seen, raw);
  if (rule & DECOUPLED)
    w = g16_mul(w, g16_all(h->decay_keep));
  else
    g = g16_fma(g16_all(h->weight_decay), w, g);
  m = g16_fma(g16_all(h->one_minus_beta1), g16_sub(g, m), m);
  v = g16_fma(g16_all(h->one_minus_beta2), g16_mul(g, g), g16_mul(g16_all(h->beta2), v));
  const g16 root = g16_sqrt(v);
  g16 scale = rule & BY_DIVIDING ? g16_div(root, g16_all(h->sqrt_bias2)) : adam_quotient(root, h->sqrt_bias2);
  scale = g16_add(scale, g16_all(h->eps));
  w = g16_fma(g16_all(-h->step_size), g16_div(m, scale), w);
  seen = update16_put_state(u->s1[0], m, at, seen);
  seen = update16_put_state(u->s1[1], v, at, seen);
  return update16_put_weight(u->w1, w, at, seen);
}

/* Sets without vectors of FMA divide faster. */
static bool divides(const hd_update *u) {
  return !HAS_FMA || !(u->hyper->sqrt_bias2 > 0x1p-20f && u->hyper->sqrt_bias2 < 0x1p20f);
}

static int adam(const hd_update *u) {
  return divides(u) ? update16_all(u, adam_group, BY_DIVIDING) : update16_all(u, adam_group, 0);
}

static int adamw(const hd_update *u) {
  return divides(u) ? update16_all(u, adam_group, DECOUPLED | BY_DIVIDING) : update16_all(u, adam_group, DECOUPLED);
}

void HD_SYM(adam_fill)(hd_kernels *table) {
  table->update[HD_OP_adam] = adam;
  table->update[HD_OP_adamw] = adamw;
}
