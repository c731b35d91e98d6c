/* Batch normalisation: sixteen channels at a time, each lane the reference's chain.
 *
 * Channels are fastest in memory, so a group's pixels lie `ci` apart. Statistics and gradients of up to FOUR groups
 * run at once: their chains are long and would wait for each other's additions alone. */
#include "kernel/cpu/group16.h"

enum { FOUR = 4 };

G16 void sum_groups(g16 *sum, const hd_call *call, int c, int groups) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n) + c;
    for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci)
      for (int q = 0; q < groups; q++)
        sum[q] = g16_add(sum[q], g16_load_some(x + 16 * q, g->ci - c - 16 * q));
  }
}

G16 void sum_squared_deviations(g16 *m2, const g16 *mean, const hd_call *call, int c, int groups) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n) + c;
    for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci)
      for (int q = 0; q < groups; q++) {
        g16 d = g16_sub(g16_load_some(x + 16 * q, g->ci - c - 16 * q), mean[q]);
        m2[q] = g16_fma(d, d, m2[q]);
      }
  }
}

static void batch_stats(const hd_call *call) {
  const hd_geom *g = call->g;
  g16 count = g16_all((float)(call->rows * pixels_of(g)));
  for (int c = 0; c < g->ci; c += 16 * FOUR) {
    int groups = (g->ci - c + 15) / 16 < FOUR ? (g->ci - c + 15) / 16 : FOUR;
    g16 mean[FOUR], m2[FOUR];
    for (int q = 0; q < FOUR; q++)
      mean[q] = m2[q] = g16_zero();
    sum_groups(mean, call, c, groups);
    for (int q = 0; q < groups; q++)
      mean[q] = g16_div(mean[q], count);
    sum_squared_deviations(m2, mean, call, c, groups);
    for (int q = 0; q < groups; q++) {
      g16_store_some((float *)call->out[0] + c + 16 * q, mean[q], g->ci - c - 16 * q);
      g16_store_some((float *)call->out[1] + c + 16 * q, m2[q], g->ci - c - 16 * q);
    }
  }
}

G16 g16 channels(const hd_call *call, int slot, int c) {
  return g16_load_some((const float *)call->in[slot] + c, call->g->ci - c);
}

G16 g16 deviation(const hd_call *call, int slot, int c) {
  return g16_sqrt(g16_add(channels(call, slot, c), g16_all(call->g->eps)));
}

static void batch_norm(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int c = 0; c < g->ci; c += 16) {
    int left = g->ci - c;
    g16 mean = channels(call, 3, c), bias = channels(call, 2, c);
    g16 scale = g16_div(channels(call, 1, c), deviation(call, 4, c));
    for (int64_t n = 0; n < call->rows; n++) {
      const float *x = in_row(call, 0, n) + c;
      float *y = out_row(call, 0, n) + c;
      for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci, y += g->ci)
        g16_store_some(y, g16_fma(g16_sub(g16_load_some(x, left), mean), scale, bias), left);
    }
  }
}

static void batch_norm_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int c = 0; c < g->ci; c += 16) {
    int left = g->ci - c;
    g16 mean = channels(call, 2, c), r = g16_div(g16_all(1), deviation(call, 3, c)), dw = g16_zero(), db = g16_zero();
    for (int64_t n = 0; n < call->rows; n++) {
      const float *x = in_row(call, 0, n) + c, *dy = in_row(call, 1, n) + c;
      for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci, dy += g->ci) {
        g16 d = g16_load_some(dy, left);
        dw = g16_fma(d, g16_mul(g16_sub(g16_load_some(x, left), mean), r), dw);
        db = g16_add(db, d);
      }
    }
    if (call->out[0])
      g16_store_some((float *)call->out[0] + c, dw, left);
    if (call->out[1])
      g16_store_some((float *)call->out[1] + c, db, left);
  }
}

static void batch_norm_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  g16 count = g16_all((float)(call->batch_rows * pixels_of(g)));
  for (int c = 0; c < g->ci; c += 16) {
    int left = g->ci - c;
    g16 mean = channels(call, 3, c), r = g16_div(g16_all(1), deviation(call, 4, c));
    g16 scale = g16_mul(channels(call, 1, c), r);
    g16 dw = g16_div(channels(call, 5, c), count), db = g16_div(channels(call, 6, c), count);
    for (int64_t n = 0; n < call->rows; n++) {
      const float *dy = in_row(call, 0, n) + c, *x = in_row(call, 2, n) + c;
      float *dx = out_row(call, 0, n) + c;
      for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci, dy += g->ci, dx += g->ci) {
        g16 xhat = g16_mul(g16_sub(g16_load_some(x, left), mean), r);
        g16_store_some(dx, g16_mul(scale, g16_sub(g16_load_some(dy, left), g16_fma(xhat, dw, db))), left);
      }
    }
  }
}

static void shard_norm(const hd_call *call) {
  g16 count = g16_all((float)(call->rows * pixels_of(call->g)));
  float *var = call->out[2];
  hd_call part = *call;
  part.out[0] = call->out[1];
  part.out[1] = var;
  batch_stats(&part);
  for (int c = 0; c < call->g->ci; c += 16)
    g16_store_some(var + c, g16_div(g16_load_some(var + c, call->g->ci - c), count), call->g->ci - c);
  part = *call;
  part.in[3] = call->out[1];
  part.in[4] = var;
  batch_norm(&part);
}

static int64_t shard_norm_dx_scratch(const hd_geom *g) { return 2 * g->ci * (int64_t)sizeof(float); }

static void shard_norm_dx(const hd_call *call) {
  float *dw = call->scratch, *db = dw + call->g->ci;
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

void HD_SYM(batch_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_batch_stats] = batch_stats;
  table->run[HD_OP_batch_norm] = batch_norm;
  table->run[HD_OP_batch_norm_dw] = batch_norm_dw;
  table->run[HD_OP_batch_norm_dx] = batch_norm_dx;
  table->run[HD_OP_shard_norm] = shard_norm;
  table->run[HD_OP_shard_norm_dx] = shard_norm_dx;
  table->scratch_bytes[HD_OP_shard_norm_dx] = shard_norm_dx_scratch;
}
