/* cross_entropy: of scores of classes, with a label or a probability for each class as target; class weights, an
 * ignored label, label smoothing. A sample may have several places, each with scores and a label of its own. */
#pragma once

#include "op/loss.h"

#include "op/softmax/softmax.h"

/* ---- Class i in sums over all classes, which only smoothing and targets of probabilities need: w[i], of
 * probabilities v[i]. ---- */

HD_BOTH int cross_entropy_needs_all(const hd_geom *g) {
  return g->cross_entropy.soft_labels || g->cross_entropy.label_smoothing > 0;
}

HD_BOTH real cross_entropy_share(const hd_geom *g, real weight, real target) {
  const real smoothing = g->cross_entropy.label_smoothing;
  if (!g->cross_entropy.soft_labels)
    return weight;
  return weight * (smoothing > 0 ? REAL_FMA(1 - smoothing, target, smoothing / (real)g->ci) : target);
}
HD_BOTH real cross_entropy_share_at(const op_call *c, int64_t n, int64_t i) {
  return cross_entropy_share(op_geom(c), loss_weight(c, i),
                             op_geom(c)->cross_entropy.soft_labels ? op_in(c, 1, n)[i] : 0);
}

HD_BOTH int32_t cross_entropy_label(const op_call *c, int64_t n, int64_t place) {
  return ((const int32_t *)c->in[1])[n * c->in_stride[1] + place];
}
HD_BOTH int cross_entropy_counts(const hd_geom *g, int32_t label) {
  return label >= 0 && label != g->cross_entropy.ignore_index;
}

/* y: m, e and sum as in `softmax`; nll[i] = `log(sum) - (x[i] - m)`; hard = `w[label] * nll[label]`, w being the class
 * weights, or ones. With label smoothing s over C classes: `fma(1 - s, hard, s / C * t)`, t = 16 chains of `fma(w[i],
 * nll[i], acc)` and the tree. 0 if the label is ignored. Of probabilities t (made by `one_hot`): 16 chains of
 * `fma(v[i], nll[i], acc)` and the tree, `v[i] = w[i] * t[i]`, with smoothing `w[i] * fma(1 - s, t[i], s / C)`. The
 * places of a sample are added, ascending. */
HD_BOTH real cross_entropy_loss(const op_call *c, int64_t n, int64_t place, real m, real log_sum, real all) {
  const hd_geom *g = op_geom(c);
  const real smoothing = g->cross_entropy.label_smoothing;
  if (g->cross_entropy.soft_labels)
    return all;
  const int32_t label = cross_entropy_label(c, n, place);
  if (!cross_entropy_counts(g, label))
    return 0;
  const real hard = loss_weight(c, label) * (log_sum - (op_in(c, 0, n)[place * g->ci + label] - m));
  return smoothing > 0 ? REAL_FMA(1 - smoothing, hard, smoothing / (real)g->ci * all) : hard;
}

HD_BOTH real cross_entropy_of_place(const op_call *c, int64_t n, int64_t place) {
  const int classes = op_geom(c)->ci;
  const real *scores = op_in(c, 0, n) + place * classes;
  const real m = softmax_largest(scores, classes), log_sum = REAL_LOG(softmax_sum(scores, classes, m));
  OP_CHAINS16(all, cross_entropy_needs_all(op_geom(c)) ? classes : 0,
              REAL_FMA(cross_entropy_share_at(c, n, i), log_sum - (scores[i] - m), s));
  return cross_entropy_loss(c, n, place, m, log_sum, all);
}

HD_BOTH int64_t cross_entropy_count(const hd_geom *g) { return 1; }
HD_BOTH void cross_entropy_at(const op_call *c, int64_t n, int64_t unused) {
  real loss = cross_entropy_of_place(c, n, 0);
  for (int64_t place = 1; place < op_pixels(op_geom(c)); place++)
    loss = loss + cross_entropy_of_place(c, n, place);
  op_out(c, 0, n)[0] = loss;
}

/* ---- Its gradient ---- */

/* The label of a place and the weight of its class; counts: 0 if it is ignored. */
typedef struct cross_entropy_target {
  int32_t label, counts;
  real weight;
} cross_entropy_target;

HD_BOTH cross_entropy_target cross_entropy_target_of(const op_call *c, int64_t n, int64_t place) {
  cross_entropy_target target = {0, 1, 0};
  if (op_geom(c)->cross_entropy.soft_labels)
    return target;
  target.label = cross_entropy_label(c, n, place);
  target.counts = cross_entropy_counts(op_geom(c), target.label);
  target.weight = target.counts ? loss_weight(c, target.label) : 0;
  return target;
}

/* dx: p = `e[i] / sum`; `w[label] * (p - (i == label ? 1 : 0)) / divisor`. With label smoothing: share = `s / C`, kept
 * = `(1 - s) * w[label]`, a = `fma(share, sum of w, kept)` (16 chains and the tree), t = `i == label ? fma(share, w[i],
 * kept) : share * w[i]`; `fma(a, p, -t) / divisor`. 0 if the label is ignored. Of probabilities: a = v added in 16
 * chains and the tree, `fma(a, p, -v[i]) / divisor`. */
/* p, u and all: p, v[i] or w[i], and the sum of those. */
HD_BOTH real cross_entropy_slope(const op_call *c, const cross_entropy_target *target, int64_t i, real p, real u,
                                 real all) {
  const hd_geom *g = op_geom(c);
  const real smoothing = g->cross_entropy.label_smoothing, share = smoothing / (real)g->ci;
  const real kept = (1 - smoothing) * target->weight;
  if (!target->counts)
    return 0;
  if (g->cross_entropy.soft_labels)
    return REAL_FMA(all, p, -u) / op_divisor(c);
  if (smoothing > 0)
    return REAL_FMA(REAL_FMA(share, all, kept), p, -(i == target->label ? REAL_FMA(share, u, kept) : share * u)) /
           op_divisor(c);
  return target->weight * (p - (i == target->label ? 1 : 0)) / op_divisor(c);
}

HD_BOTH int64_t cross_entropy_dx_count(const hd_geom *g) { return op_pixels(g); }
HD_BOTH void cross_entropy_dx_at(const op_call *c, int64_t n, int64_t place) {
  const int classes = op_geom(c)->ci;
  const real *scores = op_in(c, 0, n) + place * classes;
  const real m = softmax_largest(scores, classes), sum = softmax_sum(scores, classes, m);
  const cross_entropy_target target = cross_entropy_target_of(c, n, place);
  OP_CHAINS16(all, cross_entropy_needs_all(op_geom(c)) ? classes : 0, s + cross_entropy_share_at(c, n, i));
  for (int i = 0; i < classes; i++)
    op_out(c, 0, n)[place * classes + i] =
        cross_entropy_slope(c, &target, i, REAL_EXP(scores[i] - m) / sum, cross_entropy_share_at(c, n, i), all);
}
