/* Reference pooling of any window, stride and padding, and its gradients. Padding is never taken by a maximum. */
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

/* The input's pixel at a position of the window of the pooled pixel `out`, -1 in the padding. */
static int64_t pixel_of(const hd_geom *g, int64_t out, int position) {
  int64_t row = out / g->wo * g->sh + position / g->kw - g->ph, col = out % g->wo * g->sw + position % g->kw - g->pw;
  return row < 0 || row >= g->hi || col < 0 || col >= g->wi ? -1 : row * g->wi + col;
}

/* By how much a window's sum is divided. */
static real divisor_of(const hd_geom *g, int64_t out) {
  int count = 0;
  for (int p = 0; p < g->kh * g->kw; p++)
    count += g->count_include_pad || pixel_of(g, out, p) >= 0;
  return (real)count;
}

/* acc = +0; positions row-major, without the padding: acc = acc + x; y = acc / divisor. */
static void avg_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t out = 0; out < (int64_t)g->ho * g->wo; out++)
      for (int c = 0; c < g->ci; c++) {
        real acc = 0;
        for (int p = 0; p < g->kh * g->kw; p++)
          if (pixel_of(g, out, p) >= 0)
            acc = acc + ((const real *)call->in[0])[n * call->in_stride[0] + pixel_of(g, out, p) * g->ci + c];
        ((real *)call->out[0])[n * call->out_stride[0] + out * g->ci + c] = acc / divisor_of(g, out);
      }
}

/* Per input element: acc = +0; over the windows that hold it, row-major: acc = acc + dy / divisor. */
static void avg_pool2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *dy = (const real *)call->in[0] + n * call->in_stride[0];
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    for (int64_t i = 0; i < (int64_t)g->hi * g->wi * g->ci; i++)
      dx[i] = 0;
    for (int64_t out = 0; out < (int64_t)g->ho * g->wo; out++)
      for (int p = 0; p < g->kh * g->kw; p++)
        for (int c = 0; c < g->ci && pixel_of(g, out, p) >= 0; c++) {
          real *d = &dx[pixel_of(g, out, p) * g->ci + c];
          *d = *d + dy[out * g->ci + c] / divisor_of(g, out);
        }
  }
}

void REF(pool_fill)(hd_kernels *table) {
  table->run[HD_OP_avg_pool2d] = table->run[HD_OP_global_avg_pool2d] = avg_pool2d;
  table->run[HD_OP_avg_pool2d_dx] = avg_pool2d_dx;
  table->run[HD_OP_max_pool2d] = max_pool2d;
  table->run[HD_OP_max_pool2d_dx] = max_pool2d_dx;
}
