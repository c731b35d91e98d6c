/* Reference batch normalisation: statistics of a shard, the normalisation, its gradients. Channels are fastest. */
#include "kernel/ref/ref_real.h"

static int64_t pixels_of(const hd_geom *g) { return (int64_t)g->hi * g->wi; }

static const real *row_of(const hd_call *call, int slot, int64_t n) {
  return (const real *)call->in[slot] + n * call->in_stride[slot];
}

/* Per channel, samples ascending, pixels ascending: sum = sum + x from +0; mean = sum / count; then, in the same order,
 * d = x - mean, m2 = fma(d, d, m2) from +0. */
static void batch_stats(const hd_call *call) {
  const hd_geom *g = call->g;
  int64_t pixels = pixels_of(g);
  for (int c = 0; c < g->ci; c++) {
    real sum = 0, m2 = 0;
    for (int64_t n = 0; n < call->rows; n++)
      for (int64_t p = 0; p < pixels; p++)
        sum = sum + row_of(call, 0, n)[p * g->ci + c];
    real mean = sum / (real)(call->rows * pixels);
    for (int64_t n = 0; n < call->rows; n++)
      for (int64_t p = 0; p < pixels; p++) {
        real d = row_of(call, 0, n)[p * g->ci + c] - mean;
        m2 = REAL_FMA(d, d, m2);
      }
    ((real *)call->out[0])[c] = mean;
    ((real *)call->out[1])[c] = m2;
  }
}

/* y = fma(x - mean, w / sqrt(var + eps), b) */
static void batch_norm(const hd_call *call) {
  const hd_geom *g = call->g;
  const real *w = call->in[1], *b = call->in[2], *mean = call->in[3], *var = call->in[4];
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < pixels_of(g) * g->ci; i++) {
      int64_t c = i % g->ci;
      real scale = w[c] / REAL_SQRT(var[c] + (real)g->eps);
      ((real *)call->out[0])[n * call->out_stride[0] + i] = REAL_FMA(row_of(call, 0, n)[i] - mean[c], scale, b[c]);
    }
}

/* r = 1 / sqrt(var + eps), xhat = (x - mean) * r; samples ascending, pixels ascending, from +0:
 * dw = fma(dy, xhat, dw), db = db + dy. */
static void batch_norm_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  const real *mean = call->in[2], *var = call->in[3];
  for (int c = 0; c < g->ci; c++) {
    real dw = 0, db = 0, r = 1 / REAL_SQRT(var[c] + (real)g->eps);
    for (int64_t n = 0; n < call->rows; n++)
      for (int64_t p = 0; p < pixels_of(g); p++) {
        real xhat = (row_of(call, 0, n)[p * g->ci + c] - mean[c]) * r, dy = row_of(call, 1, n)[p * g->ci + c];
        dw = REAL_FMA(dy, xhat, dw);
        db = db + dy;
      }
    ((real *)call->out[0])[c] = dw;
    ((real *)call->out[1])[c] = db;
  }
}

/* With N samples times pixels in the batch: dx = (w * r) * (dy - fma(xhat, dw / N, db / N)). */
static void batch_norm_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  const real *w = call->in[1], *mean = call->in[3], *var = call->in[4], *dw = call->in[5], *db = call->in[6];
  real count = (real)(call->batch_rows * pixels_of(g));
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < pixels_of(g) * g->ci; i++) {
      int64_t c = i % g->ci;
      real r = 1 / REAL_SQRT(var[c] + (real)g->eps), xhat = (row_of(call, 2, n)[i] - mean[c]) * r;
      real back = row_of(call, 0, n)[i] - REAL_FMA(xhat, dw[c] / count, db[c] / count);
      ((real *)call->out[0])[n * call->out_stride[0] + i] = (w[c] * r) * back;
    }
}

void REF(batch_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_batch_stats] = batch_stats;
  table->run[HD_OP_batch_norm] = batch_norm;
  table->run[HD_OP_batch_norm_dw] = batch_norm_dw;
  table->run[HD_OP_batch_norm_dx] = batch_norm_dx;
}
