/* Reference layer normalisation over all elements of a sample, and its gradients. Every sum over a sample is 16
 * interleaved chains over the element's index in memory (chain k takes i = k mod 16, from +0), then the fixed tree. */
#include "kernel/ref/ref_real.h"

static int64_t elems(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

static const real *row_of(const hd_call *call, int slot, int64_t n) {
  return (const real *)call->in[slot] + n * call->in_stride[slot];
}

/* mean = the sum of x / N; var = the sum of fma(d, d) / N with d = x - mean; r = 1 / sqrt(var + eps). Normalised: xhat
 * = (x - mean) * r. */
typedef struct moments {
  real mean, r;
} moments;

static moments moments_of(const hd_geom *g, const real *x) {
  real chain[16] = {0};
  for (int64_t i = 0; i < elems(g); i++)
    chain[i % 16] = chain[i % 16] + x[i];
  real mean = tree16(chain) / (real)elems(g), square[16] = {0};
  for (int64_t i = 0; i < elems(g); i++)
    square[i % 16] = REAL_FMA(x[i] - mean, x[i] - mean, square[i % 16]);
  return (moments){mean, 1 / REAL_SQRT(tree16(square) / (real)elems(g) + (real)g->eps)};
}

/* y = fma(xhat, w, b) */
static void layer_norm(const hd_call *call) {
  const real *w = call->in[1], *b = call->in[2];
  for (int64_t n = 0; n < call->rows; n++) {
    const real *x = row_of(call, 0, n);
    real *y = (real *)call->out[0] + n * call->out_stride[0];
    moments m = moments_of(call->g, x);
    for (int64_t i = 0; i < elems(call->g); i++)
      y[i] = REAL_FMA((x[i] - m.mean) * m.r, w[i], b[i]);
  }
}

/* Samples ascending, from +0: dw = fma(dy, xhat, dw), db = db + dy. */
static void layer_norm_dw(const hd_call *call) {
  real *dw = call->out[0], *db = call->out[1];
  for (int64_t n = 0; n < call->rows; n++) {
    const real *x = row_of(call, 0, n), *dy = row_of(call, 1, n);
    moments m = moments_of(call->g, x);
    for (int64_t i = 0; dw && i < elems(call->g); i++)
      dw[i] = REAL_FMA(dy[i], (x[i] - m.mean) * m.r, n ? dw[i] : 0);
    for (int64_t i = 0; db && i < elems(call->g); i++)
      db[i] = (n ? db[i] : 0) + dy[i];
  }
}

/* h = dy * w; a = the sum of h / N; c = the sum of fma(h, xhat) / N; dx = r * (h - fma(xhat, c, a)). */
static void layer_norm_dx(const hd_call *call) {
  const real *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++) {
    const real *dy = row_of(call, 0, n), *x = row_of(call, 2, n);
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    real sum[16] = {0}, dot[16] = {0}, count = (real)elems(call->g);
    moments m = moments_of(call->g, x);
    for (int64_t i = 0; i < elems(call->g); i++) {
      sum[i % 16] = sum[i % 16] + dy[i] * w[i];
      dot[i % 16] = REAL_FMA(dy[i] * w[i], (x[i] - m.mean) * m.r, dot[i % 16]);
    }
    real a = tree16(sum) / count, c = tree16(dot) / count;
    for (int64_t i = 0; i < elems(call->g); i++)
      dx[i] = m.r * (dy[i] * w[i] - REAL_FMA((x[i] - m.mean) * m.r, c, a));
  }
}

void REF(layer_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_layer_norm] = layer_norm;
  table->run[HD_OP_layer_norm_dx] = layer_norm_dx;
  table->run[HD_OP_layer_norm_dw] = layer_norm_dw;
}
