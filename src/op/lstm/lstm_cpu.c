/* lstm by sixteen channels of the state. */
#include "op/recurrent_cpu.h"

G16 void lstm_channels(channels c, const float *x, float *y, float *kept) {
  const g16 i = g16_sigmoid(g16_add(share_of(&c, kept, 0), load_gate(&c, x, 0)));
  const g16 f = g16_sigmoid(g16_add(share_of(&c, kept, 1), load_gate(&c, x, 1)));
  const g16 g = g16_tanh(g16_add(share_of(&c, kept, 2), load_gate(&c, x, 2)));
  const g16 o = g16_sigmoid(g16_add(share_of(&c, kept, 3), load_gate(&c, x, 3)));
  const g16 before = c.first ? g16_zero() : load_gate(&c, kept, -1), cell = g16_fma(f, before, g16_mul(i, g));
  store_gate(&c, kept, 0, i);
  store_gate(&c, kept, 1, f);
  store_gate(&c, kept, 2, g);
  store_gate(&c, kept, 3, o);
  store_gate(&c, kept, 4, cell);
  store_gate(&c, y, 0, g16_mul(o, g16_tanh(cell)));
}

/* s * (1 - s) */
G16 g16 slope(g16 s) { return g16_mul(s, g16_sub(g16_all(1), s)); }

G16 void lstm_channels_back(const hd_call *call, int64_t n, int t, channels c) {
  const float *dy = in_row(call, 0, n) + (int64_t)t * c.width, *kept = in_row(call, 2, n) + (int64_t)t * 5 * c.width;
  float *dx = out_row(call, 0, n) + (int64_t)t * 4 * c.width;
  const g16 i = load_gate(&c, kept, 0), f = load_gate(&c, kept, 1), g = load_gate(&c, kept, 2);
  const g16 o = load_gate(&c, kept, 3), q = g16_tanh(load_gate(&c, kept, 4));
  const g16 before = c.first ? g16_zero() : load_gate(&c, kept, -1);
  const g16 dh = g16_add(load_gate(&c, dy, 0), c.last ? g16_zero() : load_gate(&c, dx, 1));
  const g16 one = g16_one_minus_square(q),
            dc = g16_fma(g16_mul(dh, o), one, c.last ? g16_zero() : load_gate(&c, dx, 0));
  store_gate(&c, dx, 0, g16_mul(g16_mul(dc, g), slope(i)));
  store_gate(&c, dx, 1, g16_mul(g16_mul(dc, before), slope(f)));
  store_gate(&c, dx, 2, g16_mul(g16_mul(dc, i), g16_one_minus_square(g)));
  store_gate(&c, dx, 3, g16_mul(g16_mul(dh, q), slope(o)));
  if (!c.first)
    store_gate(&c, dx, -4, g16_mul(dc, f));
}

RECURRENT16(lstm, 5, 0)
