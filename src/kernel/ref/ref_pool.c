/* Reference max pooling of any window, stride and padding, and its gradient. Padding is never taken. */
#include "kernel/ref/ref_real.h"

static void pool_window(const hd_geom *g, const real *x, int oy, int ox, int c, real *y, uint8_t *argmax) {
  int taken = -1;
  real best = 0;
  for (int p = 0; p < g->kh * g->kw; p++) {
    int row = oy * g->sh + p / g->kw - g->ph, col = ox * g->sw + p % g->kw - g->pw;
    if (row < 0 || row >= g->hi || col < 0 || col >= g->wi)
      continue;
    real v = x[((int64_t)row * g->wi + col) * g->ci + c];
    if (taken < 0 || takes_over(v, best)) {
      best = v;
      taken = p;
    }
  }
  int64_t out = ((int64_t)oy * g->wo + ox) * g->ci + c;
  y[out] = best;
  if (argmax)
    argmax[out] = (uint8_t)taken;
}

static void max_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int oy = 0; oy < g->ho; oy++)
      for (int ox = 0; ox < g->wo; ox++)
        for (int c = 0; c < g->ci; c++)
          pool_window(g, (const real *)call->in[0] + n * call->in_stride[0], oy, ox, c,
                      (real *)call->out[0] + n * call->out_stride[0],
                      call->out[1] ? (uint8_t *)call->out[1] + n * call->out_stride[1] : NULL);
}

/* Per input element: acc = +0; over windows row-major: acc = acc + dy where the maximum lies here. */
static void max_pool2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *dy = (const real *)call->in[0] + n * call->in_stride[0];
    const uint8_t *argmax = (const uint8_t *)call->in[1] + n * call->in_stride[1];
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    for (int64_t i = 0; i < (int64_t)g->hi * g->wi * g->ci; i++)
      dx[i] = 0;
    for (int64_t i = 0; i < (int64_t)g->ho * g->wo * g->ci; i++) {
      int c = (int)(i % g->ci), ox = (int)(i / g->ci % g->wo), oy = (int)(i / g->ci / g->wo);
      int row = oy * g->sh + argmax[i] / g->kw - g->ph, col = ox * g->sw + argmax[i] % g->kw - g->pw;
      real *d = &dx[((int64_t)row * g->wi + col) * g->ci + c];
      *d = *d + dy[i];
    }
  }
}

void REF(pool_fill)(hd_kernels *table) {
  table->run[HD_OP_max_pool2d] = max_pool2d;
  table->run[HD_OP_max_pool2d_dx] = max_pool2d_dx;
}
