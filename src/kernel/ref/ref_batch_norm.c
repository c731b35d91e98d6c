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
    if (call->out[0])
      ((real *)call->out[0])[c] = dw;
    if (call->out[1])
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

/* batch_stats of the shard, var = m2 / count; then batch_norm. */
static void shard_norm(const hd_call *call) {
  real count = (real)(call->rows * pixels_of(call->g)), *var = call->out[2];
  hd_call part = *call;
  part.out[0] = call->out[1];
  part.out[1] = var;
  batch_stats(&part);
  for (int c = 0; c < call->g->ci; c++)
    var[c] = var[c] / count;
  part = *call;
  part.in[3] = call->out[1];
  part.in[4] = var;
  batch_norm(&part);
}

static int64_t shard_norm_dx_scratch(const hd_geom *g) { return 2 * g->ci * (int64_t)sizeof(real); }

/* batch_norm_dw of the shard; then batch_norm_dx, with the shard for the batch. */
static void shard_norm_dx(const hd_call *call) {
  real *dw = call->scratch, *db = dw + call->g->ci;
  hd_call part = {.g = call->g, .rows = call->rows, .in = {call->in[2], call->in[0], call->in[3], call->in[4]}};
  part.in_stride[0] = call->in_stride[2];
  part.in_stride[1] = call->in_stride[0];
  part.out[0] = dw;
  part.out[1] = db;
  batch_norm_dw(&part);
  part = *call;
  part.in[5] = dw;
  part.in[6] = db;
  part.batch_rows = call->rows;
  batch_norm_dx(&part);
}

void REF(batch_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_batch_stats] = batch_stats;
  table->run[HD_OP_batch_norm] = batch_norm;
  table->run[HD_OP_batch_norm_dw] = batch_norm_dw;
  table->run[HD_OP_batch_norm_dx] = batch_norm_dx;
  table->run[HD_OP_shard_norm] = shard_norm;
  table->run[HD_OP_shard_norm_dx] = shard_norm_dx;
  table->scratch_bytes[HD_OP_shard_norm_dx] = shard_norm_dx_scratch;
}
