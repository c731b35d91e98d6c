/* Cross-entropy over softmax and its gradient: groups along the classes.
 * Few classes fit one group; the code has no special case for them. */
#include "op/softmax/softmax_cpu.h"

/* A place of a sample: its scores and label. */
typedef struct place_of {
  const float *logits;
  int32_t label;
} place_of;

static place_of place_at(const hd_call *call, int64_t n, int64_t place) {
  return (place_of){in_row(call, 0, n) + place * call->g->ci,
                    ((const int32_t *)call->in[1])[n * call->in_stride[1] + place]};
}

static int counts(const hd_geom *g, int32_t label) { return label >= 0 && label != g->cross_entropy.ignore_index; }

static float weight_of(const hd_call *call, int32_t i) { return call->in[2] ? ((const float *)call->in[2])[i] : 1; }

/* The weights of the classes from i on; lanes after the last class are undefined. */
G16 g16 weights_at(const hd_call *call, int32_t i) {
  return call->in[2] ? g16_load_some((const float *)call->in[2] + i, call->g->ci - i) : g16_all(1);
}

static float sum_of_nll(const hd_call *call, const float *logits, float m, float log_sum) {
  const int classes = call->g->ci;
  g16 chains = g16_zero();
  for (int i = 0; i < classes; i += 16) {
    g16 nll = g16_sub(g16_all(log_sum), g16_sub(g16_load_some(logits + i, classes - i), g16_all(m)));
    chains = g16_keep_tail(chains, g16_fma(weights_at(call, i), nll, chains), classes - i);
  }
  return g16_tree(chains);
}

static float sum_of_weights(const hd_call *call) {
  const int classes = call->g->ci;
  g16 chains = g16_zero();
  for (int i = 0; i < classes; i += 16)
    chains = g16_keep_tail(chains, g16_add(chains, weights_at(call, i)), classes - i);
  return g16_tree(chains);
}

/* The reference's, for targets that are probabilities. */
static void (*soft_cross_entropy)(const hd_call *call), (*soft_cross_entropy_dx)(const hd_call *call);

static float loss_of(const hd_call *call, const place_of *at) {
  const int classes = call->g->ci;
  const float smoothing = call->g->cross_entropy.label_smoothing, share = smoothing / (float)classes;
  if (!counts(call->g, at->label))
    return 0;
  const float m = largest(at->logits, classes), log_sum = hd__logf(sum_of_exp(at->logits, classes, m));
  const float loss = weight_of(call, at->label) * (log_sum - (at->logits[at->label] - m));
  return smoothing > 0 ? fmaf(1 - smoothing, loss, share * sum_of_nll(call, at->logits, m, log_sum)) : loss;
}

static void cross_entropy(const hd_call *call) {
  if (call->g->cross_entropy.soft_labels) {
    soft_cross_entropy(call);
    return;
  }
  for (int64_t n = 0; n < call->rows; n++) {
    place_of at = place_at(call, n, 0);
    float loss = loss_of(call, &at);
    for (int64_t place = 1; place < pixels_of(call->g); place++) {
      at = place_at(call, n, place);
      loss = loss + loss_of(call, &at);
    }
    *out_row(call, 0, n) = loss;
  }
}

static void fill_zero(float *x, int count) {
  for (int i = 0; i < count; i += 16)
    g16_store_some(x + i, g16_zero(), count - i);
}

/* w * (p - 0) / divisor, p - 1 for the class of the label. */
static void hard_row(const hd_call *call, const float *logits, float *dx, int32_t label) {
  const int classes = call->g->ci;
  const float m = largest(logits, classes), sum = sum_of_exp(logits, classes, m);
  const g16 weight = g16_all(weight_of(call, label)), divisor = g16_all(call->divisor);
  for (int i = 0; i < classes; i += 16) {
    g16 p = g16_div(g16_exp(g16_sub(g16_load_some(logits + i, classes - i), g16_all(m))), g16_all(sum));
    if (label >= i && label < i + 16) {
      g16 hit = g16_choose(g16_first(label - i + 1), g16_sub(p, g16_all(1)), p);
      p = g16_choose(g16_first(label - i), p, hit);
    }
    g16_store_some(dx + i, g16_div(g16_mul(weight, p), divisor), classes - i);
  }
}

static void soft_row(const hd_call *call, const float *logits, float *dx, int32_t label, float all) {
  const int classes = call->g->ci;
  const float smoothing = call->g->cross_entropy.label_smoothing, share = smoothing / (float)classes;
  const float m = largest(logits, classes), sum = sum_of_exp(logits, classes, m);
  const float kept = (1 - smoothing) * weight_of(call, label), a = fmaf(share, all, kept);
  const g16 divisor = g16_all(call->divisor), minus_share = g16_all(-share);
  for (int i = 0; i < classes; i += 16) {
    g16 p = g16_div(g16_exp(g16_sub(g16_load_some(logits + i, classes - i), g16_all(m))), g16_all(sum));
    g16 d = g16_fma(g16_all(a), p, g16_mul(minus_share, weights_at(call, i)));
    g16_store_some(dx + i, g16_div(d, divisor), classes - i);
  }
  float p = hd__expf(logits[label] - m) / sum;
  dx[label] = fmaf(a, p, -fmaf(share, weight_of(call, label), kept)) / call->divisor;
}

static void cross_entropy_dx(const hd_call *call) {
  if (call->g->cross_entropy.soft_labels) {
    soft_cross_entropy_dx(call);
    return;
  }
  const float all = call->g->cross_entropy.label_smoothing > 0 ? sum_of_weights(call) : 0;
  for (int64_t i = 0; i < call->rows * pixels_of(call->g); i++) {
    const int64_t n = i / pixels_of(call->g), place = i % pixels_of(call->g);
    const place_of at = place_at(call, n, place);
    float *dx = out_row(call, 0, n) + place * call->g->ci;
    if (!counts(call->g, at.label))
      fill_zero(dx, call->g->ci);
    else if (call->g->cross_entropy.label_smoothing > 0)
      soft_row(call, at.logits, dx, at.label, all);
    else
      hard_row(call, at.logits, dx, at.label);
  }
}

void HD_SYM(cross_entropy_fill)(hd_kernels *table) {
  soft_cross_entropy = table->run[HD_OP_cross_entropy];
  soft_cross_entropy_dx = table->run[HD_OP_cross_entropy_dx];
  table->run[HD_OP_cross_entropy] = cross_entropy;
  table->run[HD_OP_cross_entropy_dx] = cross_entropy_dx;
}
