/* gru: gated recurrent units over the places of a sample. Of each place the gates r, z and n and the state's share of n
 * are kept for the gradient, one after the other. */
#pragma once

#include "op/recurrent.h"

/* y: of a place with input x, places ascending: the share of the state h of the place before in a gate as in lstm; r, z
 * = sigmoid(share + x), `n = tanh(fma(r, share, x))`, in PyTorch's order r, z, n; `fma(z, h - n, n)` */
HD_BOTH void gru_step(const op_call *c, int64_t n, int t, int k) {
  const int width = op_geom(c)->co;
  const real *x = recurrent_in(c, n, t);
  real *kept = op_out(c, 1, n) + (int64_t)t * 4 * width, *h = op_out(c, 0, n) + (int64_t)t * width;
  const real r = recurrent_sigmoid(recurrent_share(c, n, t, k) + x[k]);
  const real z = recurrent_sigmoid(recurrent_share(c, n, t, width + k) + x[width + k]);
  const real share = recurrent_share(c, n, t, 2 * width + k), fresh = REAL_TANH(REAL_FMA(r, share, x[2 * width + k]));
  kept[k] = r;
  kept[width + k] = z;
  kept[2 * width + k] = fresh;
  kept[3 * width + k] = share;
  h[k] = REAL_FMA(z, (t > 0 ? h[k - width] : 0) - fresh, fresh);
}

/* dx: places descending: back as in lstm, of the gradients of the shares, which are those of x but `dn * r` in n; `dh =
 * dy + (dh * z of the place behind + back)`, both +0 behind the last; `dn = (dh * (1 - z)) * fma(-n, n, 1)`, `dr = (dn
 * * share) * (r * (1 - r))`, `dz = (dh * (h of the place before - n)) * (z * (1 - z))` */
/* dw: as in lstm, of the gradients of the shares */
/* db: as in lstm, of the gradients of the shares */
/* The product of dh and z waits where the gradient of r at the place before will be. */
HD_BOTH void gru_step_back(const op_call *c, int64_t n, int t, int k) {
  const int width = op_geom(c)->co;
  const real *kept = op_in(c, 2, n) + (int64_t)t * 4 * width, *h = op_in(c, 3, n) + (int64_t)t * width;
  real *dx = op_out(c, 0, n) + (int64_t)t * 3 * width, *shares = op_out(c, 1, n) + (int64_t)t * 3 * width;
  const real r = kept[k], z = kept[width + k], fresh = kept[2 * width + k];
  const real carry = t + 1 < op_geom(c)->wi ? dx[k] : 0;
  const real dh = op_in(c, 0, n)[(int64_t)t * width + k] + (carry + recurrent_back(c, op_out(c, 1, n), t, k));
  const real dn = (dh * (1 - z)) * REAL_FMA(-fresh, fresh, 1);
  shares[k] = dx[k] = (dn * kept[3 * width + k]) * (r * (1 - r));
  shares[width + k] = dx[width + k] = (dh * ((t > 0 ? h[k - width] : 0) - fresh)) * (z * (1 - z));
  dx[2 * width + k] = dn;
  shares[2 * width + k] = dn * r;
  if (t > 0)
    dx[k - 3 * width] = dh * z;
}

OP_RECURRENT(gru)
