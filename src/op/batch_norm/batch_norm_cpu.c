/* Batch normalisation: sixteen channels at a time, each lane the reference's chain.
 *
 * Channels are fastest in memory. Several groups of them are computed together: a single chain would wait for its own
 * additions, and the memory of a pixel is then read contiguously. The values of a few groups are kept in registers. */
#include "kernel/cpu/group16.h"

enum { MOST = 16 }; /* groups at a time */

/* A kernel for the channels from c on: `groups` groups, or `left` channels of one group. Few groups are a constant
 * where a kernel is inlined below. */
typedef void channels_fn(const hd_call *call, int c, int groups);

#define OF_GROUPS(kernel)                                                                                              \
  static void kernel##_some(const hd_call *call, int c, int groups) { kernel##_of(call, c, 1, call->g->ci - c); }      \
  static void kernel##_1(const hd_call *call, int c, int groups) { kernel##_of(call, c, 1, 16); }                      \
  static void kernel##_2(const hd_call *call, int c, int groups) { kernel##_of(call, c, 2, 16); }                      \
  static void kernel##_4(const hd_call *call, int c, int groups) { kernel##_of(call, c, 4, 16); }                      \
  static void kernel##_many(const hd_call *call, int c, int groups) { kernel##_of(call, c, groups, 16); }              \
  static void kernel(const hd_call *call) {                                                                            \
    static channels_fn *const of[] = {kernel##_some, kernel##_1, kernel##_2, kernel##_many, kernel##_4};               \
    all_channels(call, of);                                                                                            \
  }

static void all_channels(const hd_call *call, channels_fn *const of[]) {
  const int channels = call->g->ci;
  for (int c = 0, groups; c < channels; c += 16 * (groups > 0 ? groups : 1)) {
    groups = (channels - c) / 16 < MOST ? (channels - c) / 16 : MOST;
    of[groups > 4 ? 3 : groups](call, c, groups);
  }
}

/* Numbers of the channels, a group each. */
G16 void load_channels(g16 *to, const hd_call *call, int slot, int c, int groups, int left) {
  UNROLL_FOR (q, groups)
    to[q] = g16_load_some((const float *)call->in[slot] + c + 16 * q, left);
}

G16 void store_channels(float *to, const g16 *value, int c, int groups, int left) {
  UNROLL_FOR (q, groups)
    g16_store_some(to + c + 16 * q, value[q], left);
}

G16 g16 deviation(g16 variance, const hd_geom *g) { return g16_sqrt(g16_add(variance, g16_all(g->norm.eps))); }

G16 void sum_pixels(g16 *sum, const hd_call *call, int c, int groups, int left) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n) + c;
    for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci)
      UNROLL_FOR (q, groups)
        sum[q] = g16_add(sum[q], g16_load_some(x + 16 * q, left));
  }
}

G16 void sum_squared_deviations(g16 *m2, const g16 *mean, const hd_call *call, int c, int groups, int left) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n) + c;
    for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci)
      UNROLL_FOR (q, groups) {
        const g16 d = g16_sub(g16_load_some(x + 16 * q, left), mean[q]);
        m2[q] = g16_fma(d, d, m2[q]);
      }
  }
}

G16 void batch_stats_of(const hd_call *call, int c, int groups, int left) {
  const g16 count = g16_all((float)(call->rows * pixels_of(call->g)));
  g16 mean[MOST], m2[MOST];
  UNROLL_FOR (q, groups)
    mean[q] = m2[q] = g16_zero();
  sum_pixels(mean, call, c, groups, left);
  UNROLL_FOR (q, groups)
    mean[q] = g16_div(mean[q], count);
  sum_squared_deviations(m2, mean, call, c, groups, left);
  store_channels(call->out[0], mean, c, groups, left);
  store_channels(call->out[1], m2, c, groups, left);
}
OF_GROUPS(batch_stats)

G16 void batch_norm_of(const hd_call *call, int c, int groups, int left) {
  const hd_geom *g = call->g;
  g16 scale[MOST], bias[MOST], mean[MOST], variance[MOST];
  load_channels(scale, call, 1, c, groups, left);
  load_channels(bias, call, 2, c, groups, left);
  load_channels(mean, call, 3, c, groups, left);
  load_channels(variance, call, 4, c, groups, left);
  UNROLL_FOR (q, groups)
    scale[q] = g16_div(scale[q], deviation(variance[q], g));
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n) + c;
    float *y = out_row(call, 0, n) + c;
    for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci, y += g->ci)
      UNROLL_FOR (q, groups)
        g16_store_some(y + 16 * q, g16_fma(g16_sub(g16_load_some(x + 16 * q, left), mean[q]), scale[q], bias[q]), left);
  }
}
OF_GROUPS(batch_norm)

G16 void batch_norm_dw_of(const hd_call *call, int c, int groups, int left) {
  const hd_geom *g = call->g;
  g16 mean[MOST], r[MOST], dw[MOST], db[MOST];
  load_channels(mean, call, 2, c, groups, left);
  load_channels(r, call, 3, c, groups, left);
  UNROLL_FOR (q, groups) {
    r[q] = g16_div(g16_all(1), deviation(r[q], g));
    dw[q] = db[q] = g16_zero();
  }
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n) + c, *dy = in_row(call, 1, n) + c;
    for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci, dy += g->ci)
      UNROLL_FOR (q, groups) {
        const g16 d = g16_load_some(dy + 16 * q, left);
        dw[q] = g16_fma(d, g16_mul(g16_sub(g16_load_some(x + 16 * q, left), mean[q]), r[q]), dw[q]);
        db[q] = g16_add(db[q], d);
      }
  }
  if (call->out[0])
    store_channels(call->out[0], dw, c, groups, left);
  if (call->out[1])
    store_channels(call->out[1], db, c, groups, left);
}
OF_GROUPS(batch_norm_dw)

G16 void batch_norm_dx_of(const hd_call *call, int c, int groups, int left) {
  const hd_geom *g = call->g;
  const g16 count = g16_all((float)(call->batch_rows * pixels_of(g)));
  g16 scale[MOST], mean[MOST], r[MOST], dw[MOST], db[MOST];
  load_channels(scale, call, 1, c, groups, left);
  load_channels(mean, call, 3, c, groups, left);
  load_channels(r, call, 4, c, groups, left);
  load_channels(dw, call, 5, c, groups, left);
  load_channels(db, call, 6, c, groups, left);
  UNROLL_FOR (q, groups) {
    r[q] = g16_div(g16_all(1), deviation(r[q], g));
    scale[q] = g16_mul(scale[q], r[q]);
    dw[q] = g16_div(dw[q], count);
    db[q] = g16_div(db[q], count);
  }
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n) + c, *x = in_row(call, 2, n) + c;
    float *dx = out_row(call, 0, n) + c;
    for (int64_t p = 0; p < pixels_of(g); p++, x += g->ci, dy += g->ci, dx += g->ci)
      UNROLL_FOR (q, groups) {
        const g16 xhat = g16_mul(g16_sub(g16_load_some(x + 16 * q, left), mean[q]), r[q]);
        const g16 d = g16_sub(g16_load_some(dy + 16 * q, left), g16_fma(xhat, dw[q], db[q]));
        g16_store_some(dx + 16 * q, g16_mul(scale[q], d), left);
      }
  }
}
OF_GROUPS(batch_norm_dx)

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
