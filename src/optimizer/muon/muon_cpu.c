/* muon by groups of sixteen, up to the direction. */
#include "optimizer/update_cpu.h"

G16 g16 muon_group(update16 at, g16 seen, int nesterov) {
  const hd_update *u = at.u;
  const hd_hyper *h = u->hyper;
  g16 raw = update16_take(u->g, at), g = g16_mul(raw, g16_all(h->grad_scale));
  g16 m = g16_fma(g16_all(h->momentum), update16_take(u->s[0], at), g);
  seen = g16_note_not_finite(seen, raw);
  seen = update16_put_state(u->s1[0], m, at, seen);
  return update16_put_weight(u->w1, nesterov ? g16_fma(g16_all(h->momentum), m, g) : m, at, seen);
}

static int muon_plain(const hd_update *u) { return update16_all(u, muon_group, 0); }
static int muon_nesterov(const hd_update *u) { return update16_all(u, muon_group, 1); }
static int muon(const hd_update *u) { return u->hyper->nesterov ? muon_nesterov(u) : muon_plain(u); }

void HD_SYM(muon_fill)(hd_kernels *table) { table->update[HD_OP_muon] = muon; }
