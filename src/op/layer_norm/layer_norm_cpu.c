/* Layer normalisation over all elements of a sample, and its gradients: groups along the elements, 16 chains and the
 * fixed tree for every sum. A short last group is masked, so that its absent lanes leave their chains
 * unchanged. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

static int64_t elems(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

static const float *row_of(const hd_call *call, int slot, int64_t n) {
  return (const float *)call->in[slot] + n * call->in_stride[slot];
}

/* `next` in the lanes of elements that exist, else the chains as they were. */
G16 g16 take(g16 chains, g16 next, int64_t left) {
  return left >= 16 ? next : g16_choose(g16_first((int)left), next, chains);
}

typedef struct moments {
  g16 mean, r;
} moments;

G16 moments moments_of(const hd_geom *g, const float *x) {
  const int64_t count = elems(g);
  g16 sum = g16_zero(), square = g16_zero(), all = g16_all((float)count);
  for (int64_t i = 0; i < count; i += 16)
    sum = take(sum, g16_add(sum, g16_load_some(x + i, count - i)), count - i);
  g16 mean = g16_div(g16_all(g16_tree(sum)), all);
  for (int64_t i = 0; i < count; i += 16) {
    g16 d = g16_sub(g16_load_some(x + i, count - i), mean);
    square = take(square, g16_fma(d, d, square), count - i);
  }
  g16 var = g16_div(g16_all(g16_tree(square)), all);
  return (moments){mean, g16_div(g16_all(1), g16_sqrt(g16_add(var, g16_all(g->eps))))};
}

G16 g16 normalised(const moments *m, const float *x, int64_t left) {
  return g16_mul(g16_sub(g16_load_some(x, left), m->mean), m->r);
}

static void layer_norm(const hd_call *call) {
  const int64_t count = elems(call->g);
  const float *w = call->in[1], *b = call->in[2];
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = row_of(call, 0, n);
    float *y = (float *)call->out[0] + n * call->out_stride[0];
    const moments m = moments_of(call->g, x);
    for (int64_t i = 0; i < count; i += 16) {
      const int64_t left = count - i;
      g16_store_some(
          y + i, g16_fma(normalised(&m, x + i, left), g16_load_some(w + i, left), g16_load_some(b + i, left)), left);
    }
  }
}

static void weight_sums(const hd_call *call, float *dw) {
  const int64_t count = elems(call->g);
  memset(dw, 0, (size_t)count * sizeof *dw);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = row_of(call, 0, n), *dy = row_of(call, 1, n);
    const moments m = moments_of(call->g, x);
    for (int64_t i = 0; i < count; i += 16) {
      const int64_t left = count - i;
      g16 sum = g16_load_some(dw + i, left);
      g16_store_some(dw + i, g16_fma(g16_load_some(dy + i, left), normalised(&m, x + i, left), sum), left);
    }
  }
}

static void bias_sums(const hd_call *call, float *db) {
  const int64_t count = elems(call->g);
  memset(db, 0, (size_t)count * sizeof *db);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = row_of(call, 1, n);
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
  const int64_t count = elems(call->g);
  const g16 all = g16_all((float)count);
  const float *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = row_of(call, 0, n), *x = row_of(call, 2, n);
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    const moments m = moments_of(call->g, x);
    g16 sum = g16_zero(), dot = g16_zero();
    for (int64_t i = 0; i < count; i += 16) {
      const int64_t left = count - i;
      g16 h = g16_mul(g16_load_some(dy + i, left), g16_load_some(w + i, left));
      sum = take(sum, g16_add(sum, h), left);
      dot = take(dot, g16_fma(h, normalised(&m, x + i, left), dot), left);
    }
    const g16 a = g16_div(g16_all(g16_tree(sum)), all), c = g16_div(g16_all(g16_tree(dot)), all);
    for (int64_t i = 0; i < count; i += 16) {
      const int64_t left = count - i;
      g16 h = g16_mul(g16_load_some(dy + i, left), g16_load_some(w + i, left));
      g16_store_some(dx + i, g16_mul(m.r, g16_sub(h, g16_fma(normalised(&m, x + i, left), c, a))), left);
    }
  }
}

void HD_SYM(layer_norm_fill)(hd_kernels *table) {
  table->run[HD_OP_layer_norm] = layer_norm;
  table->run[HD_OP_layer_norm_dx] = layer_norm_dx;
  table->run[HD_OP_layer_norm_dw] = layer_norm_dw;
}
