/* gru by sixteen channels of the state. */
#include "op/recurrent_cpu.h"

G16 void gru_channels(channels c, const float *x, float *y, float *kept) {
  const g16 r = g16_sigmoid(g16_add(share_of(&c, kept, 0), load_gate(&c, x, 0)));
  const g16 z = g16_sigmoid(g16_add(share_of(&c, kept, 1), load_gate(&c, x, 1)));
  const g16 share = share_of(&c, kept, 2), fresh = g16_tanh(g16_fma(r, share, load_gate(&c, x, 2)));
  const g16 before = c.first ? g16_zero() : load_gate(&c, y, -1);
  store_gate(&c, kept, 0, r);
  store_gate(&c, kept, 1, z);
  store_gate(&c, kept, 2, fresh);
  store_gate(&c, kept, 3, share);
  store_gate(&c, y, 0, g16_fma(z, g16_sub(before, fresh), fresh));
}

G16 void gru_channels_back(const hd_call *call, int64_t n, int t, channels c) {
  const float *dy = in_row(call, 0, n) + (int64_t)t * c.width, *kept = in_row(call, 2, n) + (int64_t)t * 4 * c.width;
  const float *h = in_row(call, 3, n) + (int64_t)t * c.width;
  float *dx = out_row(call, 0, n) + (int64_t)t * 3 * c.width, *shares = out_row(call, 1, n) + (int64_t)t * 3 * c.width;
  const g16 r = load_gate(&c, kept, 0), z = load_gate(&c, kept, 1), fresh = load_gate(&c, kept, 2), one = g16_all(1);
  const g16 before = c.first ? g16_zero() : load_gate(&c, h, -1);
  const g16 carry = c.last ? g16_zero() : load_gate(&c, dx, 0), back = c.last ? g16_zero() : load_gate(&c, dx, 1);
  const g16 dh = g16_add(load_gate(&c, dy, 0), g16_add(carry, back));
  const g16 dn = g16_mul(g16_mul(dh, g16_sub(one, z)), g16_one_minus_square(fresh));
  const g16 dr = g16_mul(g16_mul(dn, load_gate(&c, kept, 3)), g16_mul(r, g16_sub(one, r)));
  const g16 dz = g16_mul(g16_mul(dh, g16_sub(before, fresh)), g16_mul(z, g16_sub(one, z)));
  store_gate(&c, dx, 0, dr);
  store_gate(&c, dx, 1, dz);
  store_gate(&c, dx, 2, dn);
  store_gate(&c, shares, 0, dr);
  store_gate(&c, shares, 1, dz);
  store_gate(&c, shares, 2, g16_mul(dn, r));
  if (!c.first)
    store_gate(&c, dx, -3, g16_mul(dh, z));
}

RECURRENT16(gru, 4, 1)
