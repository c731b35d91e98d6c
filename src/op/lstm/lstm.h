/* lstm: long short-term memory over the places of a sample. Of each place the gates i, f, g and o and the cell are kept
 * for the gradient, one after the other. */
#pragma once

#include "op/recurrent.h"

/* y: of a place with input x, places ascending: the share of the state h of the place before in a gate = `acc = +0`,
 * channels ascending: `acc = fma(h, w, acc)`, `acc + bias`; no product at the first place. i, f, o = sigmoid(share +
 * x), `g = tanh(share + x)`, in PyTorch's order i, f, g, o; `c = fma(f, c of the place before, i * g)`, `0` before the
 * first; `h = o * tanh(c)` */
HD_BOTH void lstm_step(const op_call *c, int64_t n, int t, int k) {
  const int width = op_geom(c)->co;
  const real *x = recurrent_in(c, n, t);
  real *kept = op_out(c, 1, n) + (int64_t)t * 5 * width;
  const real i = recurrent_sigmoid(recurrent_share(c, n, t, k) + x[k]);
  const real f = recurrent_sigmoid(recurrent_share(c, n, t, width + k) + x[width + k]);
  const real g = REAL_TANH(recurrent_share(c, n, t, 2 * width + k) + x[2 * width + k]);
  const real o = recurrent_sigmoid(recurrent_share(c, n, t, 3 * width + k) + x[3 * width + k]);
  const real cell = REAL_FMA(f, t > 0 ? kept[k - width] : 0, i * g);
  kept[k] = i;
  kept[width + k] = f;
  kept[2 * width + k] = g;
  kept[3 * width + k] = o;
  kept[4 * width + k] = cell;
  op_out(c, 0, n)[(int64_t)t * width + k] = o * REAL_TANH(cell);
}

/* dx: places descending: back = `acc = +0`, gates j of the place behind ascending: `acc = fma(dx[j], w[j][k], acc)`;
 * `dh = dy + back`; `q = tanh(c)`; `dc = fma(dh * o, fma(-q, q, 1), dc * f of the place behind)`; both +0 behind the
 * last. `di = (dc * g) * (i * (1 - i))`, `df = (dc * c of the place before) * (f * (1 - f))`, `dg = (dc * i) * fma(-g,
 * g, 1)`, `do = (dh * q) * (o * (1 - o))` */
/* dw: per shard: `acc = +0`; samples ascending, places from the second on ascending: `acc = fma(dx, h of the place
 * before, acc)`; at last `acc + 0` */
/* db: per shard: `acc = +0`; samples ascending, places ascending: `acc = acc + dx` */
/* Of dc the product with f waits where the gradient of i at the place before will be. */
HD_BOTH void lstm_step_back(const op_call *c, int64_t n, int t, int k) {
  const int width = op_geom(c)->co;
  const real *kept = op_in(c, 2, n) + (int64_t)t * 5 * width;
  real *dx = op_out(c, 0, n) + (int64_t)t * 4 * width;
  const real i = kept[k], f = kept[width + k], g = kept[2 * width + k], o = kept[3 * width + k];
  const real q = REAL_TANH(kept[4 * width + k]), before = t > 0 ? kept[k - width] : 0;
  const real dh = op_in(c, 0, n)[(int64_t)t * width + k] + recurrent_back(c, op_out(c, 0, n), t, k);
  const real dc = REAL_FMA(dh * o, REAL_FMA(-q, q, 1), t + 1 < op_geom(c)->wi ? dx[k] : 0);
  dx[k] = (dc * g) * (i * (1 - i));
  dx[width + k] = (dc * before) * (f * (1 - f));
  dx[2 * width + k] = (dc * i) * REAL_FMA(-g, g, 1);
  dx[3 * width + k] = (dh * q) * (o * (1 - o));
  if (t > 0)
    dx[k - 4 * width] = dc * f;
}

OP_RECURRENT(lstm)
