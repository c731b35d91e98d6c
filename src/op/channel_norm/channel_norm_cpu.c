/* Normalisation over the channels of each place, and its gradients: groups along the channels, 16 chains and the fixed
 * tree for every sum. */
#include "op/norm_cpu.h"

static void channel_norm(const hd_call *call) {
  const int32_t channels = call->g->ci;
  const float *w = call->in[1], *b = call->in[2];
  for (int64_t i = 0; i < call->rows * pixels_of(call->g); i++) {
    const int64_t n = i / pixels_of(call->g), at = i % pixels_of(call->g) * channels;
    const float *x = in_row(call, 0, n) + at;
    float *y = out_row(call, 0, n) + at;
    const moments m = moments_of(x, channels, call->g->norm.eps);
    for (int32_t k = 0; k < channels; k += 16) {
      const int32_t left = channels - k;
      const g16 xhat = normalised(m, g16_load_some(x + k, left));
      g16_store_some(y + k, g16_fma(xhat, g16_load_some(w + k, left), g16_load_some(b + k, left)), left);
    }
  }
}

static void channel_norm_dx(const hd_call *call) {
  const int32_t channels = call->g->ci;
  const g16 all = g16_all((float)channels);
  const float *w = call->in[1];
  for (int64_t i = 0; i < call->rows * pixels_of(call->g); i++) {
    const int64_t n = i / pixels_of(call->g), at = i % pixels_of(call->g) * channels;
    const float *dy = in_row(call, 0, n) + at, *x = in_row(call, 2, n) + at;
    float *dx = out_row(call, 0, n) + at;
    const moments m = moments_of(x, channels, call->g->norm.eps);
    const norm_sums sums = norm_sums_of(m, dy, w, x, channels);
    const g16 a = g16_div(g16_all(sums.h), all), b = g16_div(g16_all(sums.dot), all);
    for (int32_t k = 0; k < channels; k += 16) {
      const int32_t left = channels - k;
      const g16 d = norm16_slope(m, norm16_h(dy + k, w + k, left), g16_load_some(x + k, left), a, b);
      g16_store_some(dx + k, d, left);
    }
  }
}

/* Adds the terms of a place. */
static void add_terms(float *dw, float *db, const float *x, const float *dy, moments m, int32_t channels) {
  for (int32_t k = 0; k < channels; k += 16) {
    const int32_t left = channels - k;
    const g16 d = g16_load_some(dy + k, left), xhat = normalised(m, g16_load_some(x + k, left));
    if (dw)
      g16_store_some(dw + k, g16_fma(d, xhat, g16_load_some(dw + k, left)), left);
    if (db)
      g16_store_some(db + k, g16_add(g16_load_some(db + k, left), d), left);
  }
}

static void channel_norm_dw(const hd_call *call) {
  const int32_t channels = call->g->ci;
  for (int i = 0; i < 2; i++)
    if (call->out[i])
      memset(call->out[i], 0, (size_t)channels * sizeof(float));
  for (int64_t i = 0; i < call->rows * pixels_of(call->g); i++) {
    const int64_t n = i / pixels_of(call->g), at = i % pixels_of(call->g) * channels;
    const float *x = in_row(call, 0, n) + at;
    add_terms(call->out[0], call->out[1], x, in_row(call, 1, n) + at, moments_of(x, channels, call->g->norm.eps),
              channels);
  }
}

void HD_SYM(channel_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_channel_norm] = channel_norm;
  table->run[HD_OP_channel_norm_dx] = channel_norm_dx;
  table->run[HD_OP_channel_norm_dw] = channel_norm_dw;
}
