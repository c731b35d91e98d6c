/* Layer normalisation over all elements of a sample, and its gradients: groups along the elements, 16 chains and the
 * fixed tree for every sum. A short last group is masked, so that its absent lanes leave their chains
 * unchanged. */
#include "op/norm_cpu.h"

static void layer_norm(const hd_call *call) {
  const int64_t count = elems_of(call->g);
  const float *w = call->in[1], *b = call->in[2];
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    const moments m = moments_of(x, count, call->g->norm.eps);
    for (int64_t i = 0; i < count; i += 16) {
      const int64_t left = count - i;
      const g16 xhat = normalised(m, g16_load_some(x + i, left));
      g16_store_some(y + i, g16_fma(xhat, g16_load_some(w + i, left), g16_load_some(b + i, left)), left);
    }
  }
}

static void weight_sums(const hd_call *call, float *dw) {
  const int64_t count = elems_of(call->g);
  memset(dw, 0, (size_t)count * sizeof *dw);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n), *dy = in_row(call, 1, n);
    const moments m = moments_of(x, count, call->g->norm.eps);
    for (int64_t i = 0; i < count; i += 16) {
      const int64_t left = count - i;
      g16 sum = g16_load_some(dw + i, left);
      g16_store_some(dw + i, g16_fma(g16_load_some(dy + i, left), normalised(m, g16_load_some(x + i, left)), sum),
                     left);
    }
  }
}

static void bias_sums(const hd_call *call, float *db) {
  const int64_t count = elems_of(call->g);
  memset(db, 0, (size_t)count * sizeof *db);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 1, n);
    for (int64_t i = 0; i < count; i += 16) {
      const int64_t left = count - i;
      g16_store_some(db + i, g16_add(g16_load_some(db + i, left), g16_load_some(dy + i, left)), left);
    }
  }
}

static void layer_norm_dw(const hd_call *call) {
  if (call->out[0])
    weight_sums(call, call->out[0]);
  if (call->out[1])
    bias_sums(call, call->out[1]);
}

static void layer_norm_dx(const hd_call *call) {
  const int64_t count = elems_of(call->g);
  const g16 all = g16_all((float)count);
  const float *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n), *x = in_row(call, 2, n);
    float *dx = out_row(call, 0, n);
    const moments m = moments_of(x, count, call->g->norm.eps);
    const norm_sums sums = norm_sums_of(m, dy, w, x, count);
    const g16 a = g16_div(g16_all(sums.h), all), b = g16_div(g16_all(sums.dot), all);
    for (int64_t i = 0; i < count; i += 16) {
      const int64_t left = count - i;
      const g16 d = norm16_slope(m, norm16_h(dy + i, w + i, left), g16_load_some(x + i, left), a, b);
      g16_store_some(dx + i, d, left);
    }
  }
}

void HD_SYM(layer_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_layer_norm] = layer_norm;
  table->run[HD_OP_layer_norm_dx] = layer_norm_dx;
  table->run[HD_OP_layer_norm_dw] = layer_norm_dw;
}
