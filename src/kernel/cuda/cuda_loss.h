/* Softmax and losses on the GPU: a thread computes the softmax of a pixel, the loss of a sample or its gradient.
 * Chains as in ref_softmax.c and ref_loss.c. */
#ifndef HD_KERNEL_CUDA_LOSS_H
#define HD_KERNEL_CUDA_LOSS_H

#include "kernel/cuda/cuda_call.h"

HD_BOTH float cuda_largest(const float *x, int count) {
  float m = x[0];
  for (int i = 1; i < count; i++)
    if (cuda_takes_over(x[i], m))
      m = x[i];
  return m;
}

HD_BOTH float cuda_sum_of_exp(const float *x, int count, float m) {
  HD_CHAINS16(sum, count, s + hd__ref_expf(x[i] - m));
  return sum;
}

/* ---- Softmax ---- */

HD_BOTH int64_t softmax_count(const hd_geom *g) { return (int64_t)g->hi * g->wi; }
HD_BOTH void softmax_at(const hd_cuda_call *c, int64_t n, int64_t pixel) {
  const int channels = c->g.ci;
  const float *x = cuda_in(c, 0, n) + pixel * channels;
  float *y = cuda_out(c, 0, n) + pixel * channels;
  const float m = cuda_largest(x, channels), sum = cuda_sum_of_exp(x, channels, m);
  for (int i = 0; i < channels; i++)
    y[i] = hd__ref_expf(x[i] - m) / sum;
}

HD_BOTH int64_t softmax_dx_count(const hd_geom *g) { return (int64_t)g->hi * g->wi; }
HD_BOTH void softmax_dx_at(const hd_cuda_call *c, int64_t n, int64_t pixel) {
  const int channels = c->g.ci;
  const float *dy = cuda_in(c, 0, n) + pixel * channels, *y = cuda_in(c, 1, n) + pixel * channels;
  float *dx = cuda_out(c, 0, n) + pixel * channels;
  HD_CHAINS16(dot, channels, fmaf(dy[i], y[i], s));
  for (int i = 0; i < channels; i++)
    dx[i] = y[i] * (dy[i] - dot);
}

/* ---- Cross-entropy ---- */

HD_BOTH float cuda_weight(const hd_cuda_call *c, int64_t i) { return c->in[2] ? cuda_param(c, 2)[i] : 1; }

HD_BOTH int32_t cuda_label(const hd_cuda_call *c, int64_t n) {
  return ((const int32_t *)c->in[1])[n * c->in_stride[1]];
}

/* ---- The weight of a class in sums over all classes, which only smoothing and targets of probabilities need ---- */

HD_BOTH int cuda_weighs_all(const hd_cuda_call *c) { return c->g.soft_labels || c->g.label_smoothing > 0; }

/* weight: of the class; target: its probability, smoothed here. */
HD_BOTH float cuda_weighs(const hd_cuda_call *c, float weight, float target) {
  const float smoothing = c->g.label_smoothing;
  if (!c->g.soft_labels)
    return weight;
  return weight * (smoothing > 0 ? fmaf(1 - smoothing, target, smoothing / (float)c->g.ci) : target);
}
HD_BOTH float cuda_class_weighs(const hd_cuda_call *c, int64_t n, int64_t i) {
  return cuda_weighs(c, cuda_weight(c, i), c->g.soft_labels ? cuda_in(c, 1, n)[i] : 0);
}

/* ---- A sample's loss: log_sum is the log of the sum of exp(x - m), all that chain's sum ---- */

HD_BOTH float cuda_cross_entropy(const hd_cuda_call *c, int64_t n, float m, float log_sum, float all) {
  const float smoothing = c->g.label_smoothing;
  if (c->g.soft_labels)
    return all;
  const int32_t label = cuda_label(c, n);
  if (label == c->g.ignore_index)
    return 0;
  const float hard = cuda_weight(c, label) * (log_sum - (cuda_in(c, 0, n)[label] - m));
  return smoothing > 0 ? fmaf(1 - smoothing, hard, smoothing / (float)c->g.ci * all) : hard;
}

HD_BOTH int64_t cross_entropy_count(const hd_geom *g) { return 1; }
HD_BOTH void cross_entropy_at(const hd_cuda_call *c, int64_t n, int64_t unused) {
  const int classes = c->g.ci;
  const float *logits = cuda_in(c, 0, n);
  const float m = cuda_largest(logits, classes), log_sum = hd__ref_logf(cuda_sum_of_exp(logits, classes, m));
  HD_CHAINS16(all, cuda_weighs_all(c) ? classes : 0, fmaf(cuda_class_weighs(c, n, i), log_sum - (logits[i] - m), s));
  cuda_out(c, 0, n)[0] = cuda_cross_entropy(c, n, m, log_sum, all);
}

/* ---- Its gradient ---- */

/* The label of a sample and the weight of its class; counts: 0 if it is ignored. */
typedef struct cuda_target {
  int32_t label, counts;
  float weight;
} cuda_target;

HD_BOTH cuda_target cuda_target_of(const hd_cuda_call *c, int64_t n) {
  cuda_target target = {0, 1, 0};
  if (c->g.soft_labels)
    return target;
  target.label = cuda_label(c, n);
  target.counts = target.label != c->g.ignore_index;
  target.weight = target.counts ? cuda_weight(c, target.label) : 0;
  return target;
}

/* Of class i: p is its softmax, `weighs` its term of the sum `all`. */
HD_BOTH float cuda_cross_entropy_dx(const hd_cuda_call *c, const cuda_target *target, int64_t i, float p, float weighs,
                                    float all) {
  const float smoothing = c->g.label_smoothing, share = smoothing / (float)c->g.ci;
  const float kept = (1 - smoothing) * target->weight;
  if (!target->counts)
    return 0;
  if (c->g.soft_labels)
    return fmaf(all, p, -weighs) / c->step->divisor;
  if (smoothing > 0)
    return fmaf(fmaf(share, all, kept), p, -(i == target->label ? fmaf(share, weighs, kept) : share * weighs)) /
           c->step->divisor;
  return target->weight * (p - (i == target->label ? 1 : 0)) / c->step->divisor;
}

HD_BOTH int64_t cross_entropy_dx_count(const hd_geom *g) { return 1; }
HD_BOTH void cross_entropy_dx_at(const hd_cuda_call *c, int64_t n, int64_t unused) {
  const int classes = c->g.ci;
  const float *logits = cuda_in(c, 0, n);
  const float m = cuda_largest(logits, classes), sum = cuda_sum_of_exp(logits, classes, m);
  const cuda_target target = cuda_target_of(c, n);
  HD_CHAINS16(all, cuda_weighs_all(c) ? classes : 0, s + cuda_class_weighs(c, n, i));
  for (int i = 0; i < classes; i++)
    cuda_out(c, 0, n)[i] =
        cuda_cross_entropy_dx(c, &target, i, hd__ref_expf(logits[i] - m) / sum, cuda_class_weighs(c, n, i), all);
}

/* ---- Losses that are sums of terms: NAME_term is the term of an output of this weight, ADD adds it to a chain,
 * NAME_slope is the derivative. ---- */

HD_BOTH float cuda_magnitude(float d) { return d < 0 ? -d : d; }
HD_BOTH float cuda_add(float chain, float term) { return chain + term; }
HD_BOTH float cuda_add_square(float chain, float term) { return fmaf(term, term, chain); }

HD_BOTH float mse_term(const hd_cuda_call *c, float weight, float y, float target) { return y - target; }
HD_BOTH float mse_slope(const hd_cuda_call *c, int64_t i, float y, float target) {
  const float d = y - target;
  return d + d;
}

HD_BOTH float l1_term(const hd_cuda_call *c, float weight, float y, float target) { return cuda_magnitude(y - target); }
HD_BOTH float l1_slope(const hd_cuda_call *c, int64_t i, float y, float target) {
  const float d = y - target;
  return d > 0 ? 1 : d < 0 ? -1 : d;
}

HD_BOTH float huber_term(const hd_cuda_call *c, float weight, float y, float target) {
  const float delta = c->g.delta, a = cuda_magnitude(y - target);
  return a < delta ? (0.5f * a) * a : delta * (a - 0.5f * delta);
}
HD_BOTH float huber_slope(const hd_cuda_call *c, int64_t i, float y, float target) {
  const float delta = c->g.delta, d = y - target;
  return d > delta ? delta : d < -delta ? -delta : d;
}

HD_BOTH float bce_with_logits_term(const hd_cuda_call *c, float weight, float y, float target) {
  const float e = hd__ref_expf(-cuda_magnitude(y)), u = 1 + e;
  const float log1p = u == 1 ? e : hd__ref_logf(u) * e / (u - 1), softplus = log1p + (y < 0 ? -y : 0);
  return fmaf(fmaf(weight - 1, target, 1), softplus, (1 - target) * y);
}
HD_BOTH float bce_with_logits_slope(const hd_cuda_call *c, int64_t i, float y, float target) {
  const float e = hd__ref_expf(-cuda_magnitude(y)), w = cuda_weight(c, i), sigma = (y < 0 ? e : 1) / (1 + e);
  return fmaf(fmaf(w, target, 1 - target), sigma, -(w * target));
}

/* LOSS(name, ADD) */
#define HD_LOSSES_OF_TERMS(LOSS)                                                                                       \
  LOSS(mse, cuda_add_square)                                                                                           \
  LOSS(l1, cuda_add)                                                                                                   \
  LOSS(huber, cuda_add)                                                                                                \
  LOSS(bce_with_logits, cuda_add)

#define HD_LOSS(name, ADD)                                                                                             \
  HD_BOTH int64_t name##_count(const hd_geom *g) { return 1; }                                                         \
  HD_BOTH void name##_at(const hd_cuda_call *c, int64_t n, int64_t unused) {                                           \
    const float *y = cuda_in(c, 0, n), *target = cuda_in(c, 1, n);                                                     \
    HD_CHAINS16(sum, c->g.ci, ADD(s, name##_term(c, cuda_weight(c, i), y[i], target[i])));                             \
    cuda_out(c, 0, n)[0] = sum;                                                                                        \
  }                                                                                                                    \
  HD_BOTH int64_t name##_dx_count(const hd_geom *g) { return g->ci; }                                                  \
  HD_BOTH void name##_dx_at(const hd_cuda_call *c, int64_t n, int64_t i) {                                             \
    cuda_out(c, 0, n)[i] = name##_slope(c, i, cuda_in(c, 0, n)[i], cuda_in(c, 1, n)[i]) / c->step->divisor;            \
  }
HD_LOSSES_OF_TERMS(HD_LOSS)
#undef HD_LOSS

#endif
