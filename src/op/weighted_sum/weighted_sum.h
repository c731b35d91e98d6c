/* weighted_sum: the loss of a network with several heads, each of which has a loss, a weight and targets of its own.
 * The scores of the heads are one value, end to end, and so are their targets, all of them numbers. */
#pragma once

#include "op/bce_with_logits/bce_with_logits.h"
#include "op/huber/huber.h"
#include "op/l1/l1.h"
#include "op/mse/mse.h"
#include "op/softmax/softmax.h"

/* The class that a target names; -1: none, which adds nothing. */
HD_BOTH int32_t weighted_sum_label(const hd_loss_head *h, real target) {
  return target >= 0 && target < (real)h->count ? (int32_t)target : -1;
}

/* y: s = `fma(w, l, s)` over the heads in their order, l being the head's loss by the chain of that loss, and w its
 * weight, which a loss on numbers has divided by its outputs */
HD_BOTH real weighted_sum_entropy(const hd_loss_head *h, const real *y, real target) {
  const real m = softmax_largest(y, h->count), log_sum = REAL_LOG(softmax_sum(y, h->count, m));
  const int32_t label = weighted_sum_label(h, target);
  const real smoothing = h->setting;
  OP_CHAINS16(all, smoothing > 0 ? h->count : 0, s + (log_sum - (y[i] - m)));
  if (label < 0)
    return 0;
  const real hard = log_sum - (y[label] - m);
  return smoothing > 0 ? REAL_FMA(1 - smoothing, hard, smoothing / (real)h->count * all) : hard;
}

/* What huber reads of its own geometry. */
HD_BOTH hd_geom weighted_sum_settings(const hd_loss_head *h) {
  hd_geom g = {0};
  g.huber.delta = h->setting;
  return g;
}

HD_BOTH real weighted_sum_of_head(const hd_loss_head *h, const real *y, const real *target) {
  const int32_t loss = h->loss;
  if (loss == HD_HEAD_CROSS_ENTROPY)
    return weighted_sum_entropy(h, y, target[0]);
  const hd_geom g = weighted_sum_settings(h);
  OP_CHAINS16(sum, h->count,
              loss == HD_HEAD_MSE     ? loss_add_square(s, mse_term(&g, 1, y[i], target[i]))
              : loss == HD_HEAD_L1    ? loss_add(s, l1_term(&g, 1, y[i], target[i]))
              : loss == HD_HEAD_HUBER ? loss_add(s, huber_term(&g, 1, y[i], target[i]))
                                      : loss_add(s, bce_with_logits_term(&g, 1, y[i], target[i])));
  return sum;
}

HD_BOTH int64_t weighted_sum_count(const hd_geom *g) { return 1; }
HD_BOTH void weighted_sum_at(const op_call *c, int64_t n, int64_t unused) {
  const hd_weighted_sum_geom *g = &op_geom(c)->weighted_sum;
  real sum = 0;
  for (int k = 0; k < g->heads; k++) {
    const hd_loss_head *h = &g->head[k];
    sum = REAL_FMA(h->share, weighted_sum_of_head(h, op_in(c, 0, n) + h->first, op_in(c, 1, n) + h->target), sum);
  }
  op_out(c, 0, n)[0] = sum;
}

/* ---- Its gradient ---- */

/* dx: `w * slope / divisor`, slope being the gradient of the head's loss without its divisor; of cross_entropy p - t, p
 * as in `softmax`, t = `i == label ? 1 : 0`, with label smoothing s over C classes `fma(1 - s, t, s / C)` */
HD_BOTH void weighted_sum_entropy_dx(const op_call *c, const hd_loss_head *h, int64_t n) {
  const real *y = op_in(c, 0, n) + h->first, m = softmax_largest(y, h->count), sum = softmax_sum(y, h->count, m);
  const int32_t label = weighted_sum_label(h, op_in(c, 1, n)[h->target]);
  const real smoothing = h->setting;
  real *dx = op_out(c, 0, n) + h->first;
  for (int32_t i = 0; i < h->count; i++) {
    const real hard = i == label ? 1 : 0;
    const real t = smoothing > 0 ? REAL_FMA(1 - smoothing, hard, smoothing / (real)h->count) : hard;
    dx[i] = label < 0 ? 0 : h->share * (REAL_EXP(y[i] - m) / sum - t) / op_divisor(c);
  }
}

HD_BOTH real weighted_sum_slope(const hd_loss_head *h, const hd_geom *g, real y, real target) {
  switch (h->loss) {
  case HD_HEAD_MSE: return mse_slope(g, 1, y, target);
  case HD_HEAD_L1: return l1_slope(g, 1, y, target);
  case HD_HEAD_HUBER: return huber_slope(g, 1, y, target);
  default: return bce_with_logits_slope(g, 1, y, target);
  }
}

HD_BOTH int64_t weighted_sum_dx_count(const hd_geom *g) { return g->weighted_sum.heads; }
HD_BOTH void weighted_sum_dx_at(const op_call *c, int64_t n, int64_t head) {
  const hd_loss_head *h = &op_geom(c)->weighted_sum.head[head];
  if (h->loss == HD_HEAD_CROSS_ENTROPY) {
    weighted_sum_entropy_dx(c, h, n);
    return;
  }
  const hd_geom g = weighted_sum_settings(h);
  const real *y = op_in(c, 0, n) + h->first, *target = op_in(c, 1, n) + h->target;
  for (int32_t i = 0; i < h->count; i++)
    op_out(c, 0, n)[h->first + i] = h->share * weighted_sum_slope(h, &g, y[i], target[i]) / op_divisor(c);
}
