/* Reference losses, one float per sample, and their gradients; both take the sample's target, and the gradients the
 * batch's divisor.
 *
 * cross_entropy: m = the maximum of the logits by takes_over; e_i = exp(l_i - m); sum = 16 interleaved chains of
 * additions over the class index (chain c takes i = c mod 16, from +0), then the fixed tree; nll_i = log(sum) - (l_i -
 * m). Class weights that are absent are ones. A sample whose label is ignore_index has loss and gradient 0.
 *
 * The others take one term per output; the sum over the outputs is 16 interleaved chains and the fixed tree. */
#include "kernel/ref/ref_softmax.h"

static real weight_of(const hd_call *call, int32_t i) { return call->in[2] ? ((const real *)call->in[2])[i] : 1; }

/* The chains of w_i * nll_i over the classes. */
static real sum_of_nll(const hd_call *call, const real *logits, real m, real log_sum) {
  real chain[16] = {0};
  for (int i = 0; i < call->g->ci; i++)
    chain[i % 16] = REAL_FMA(weight_of(call, i), log_sum - (logits[i] - m), chain[i % 16]);
  return tree16(chain);
}

static real sum_of_weights(const hd_call *call) {
  real chain[16] = {0};
  for (int i = 0; i < call->g->ci; i++)
    chain[i % 16] = chain[i % 16] + weight_of(call, i);
  return tree16(chain);
}

static const real *row_of(const hd_call *call, int which, int64_t n) {
  return (const real *)call->in[which] + n * call->in_stride[which];
}

static int32_t label_of(const hd_call *call, int64_t n) {
  return ((const int32_t *)call->in[1])[n * call->in_stride[1]];
}

/* Of probabilities t: u_i = t_i, with smoothing s fma(1 - s, t_i, s / classes); this is w_i * u_i. */
static real soft_weight(const hd_call *call, int64_t n, int32_t i) {
  const real smoothing = (real)call->g->label_smoothing, t = row_of(call, 1, n)[i];
  return weight_of(call, i) * (smoothing > 0 ? REAL_FMA(1 - smoothing, t, smoothing / (real)call->g->ci) : t);
}

/* 16 chains of fma(w_i * u_i, nll_i, chain) and the tree. */
static void soft_cross_entropy(const hd_call *call) {
  const int classes = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *logits = row_of(call, 0, n);
    real chain[16] = {0}, m = largest(logits, classes), log_sum = REAL_LOG(sum_of_exp(logits, classes, m));
    for (int i = 0; i < classes; i++)
      chain[i % 16] = REAL_FMA(soft_weight(call, n, i), log_sum - (logits[i] - m), chain[i % 16]);
    ((real *)call->out[0])[n * call->out_stride[0]] = tree16(chain);
  }
}

/* a = 16 chains of additions of w_i * u_i and the tree; fma(a, p_i, -(w_i * u_i)) / divisor. */
static void soft_cross_entropy_dx(const hd_call *call) {
  const int classes = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *logits = row_of(call, 0, n);
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    real chain[16] = {0}, m = largest(logits, classes), sum = sum_of_exp(logits, classes, m);
    for (int i = 0; i < classes; i++)
      chain[i % 16] = chain[i % 16] + soft_weight(call, n, i);
    const real all = tree16(chain);
    for (int i = 0; i < classes; i++)
      dx[i] = REAL_FMA(all, REAL_EXP(logits[i] - m) / sum, -soft_weight(call, n, i)) / (real)call->divisor;
  }
}

/* hard = w_y * nll_y. Without smoothing that is the loss; with it fma(1 - s, hard, s / classes * sum(w_i * nll_i)). */
static void cross_entropy(const hd_call *call) {
  int classes = call->g->ci;
  if (call->g->soft_labels) {
    soft_cross_entropy(call);
    return;
  }
  real smoothing = (real)call->g->label_smoothing, share = smoothing / (real)classes;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *logits = row_of(call, 0, n);
    real *loss = (real *)call->out[0] + n * call->out_stride[0];
    int32_t label = label_of(call, n);
    *loss = 0;
    if (label == call->g->ignore_index)
      continue;
    real m = largest(logits, classes), log_sum = REAL_LOG(sum_of_exp(logits, classes, m));
    *loss = weight_of(call, label) * (log_sum - (logits[label] - m));
    if (smoothing > 0)
      *loss = REAL_FMA(1 - smoothing, *loss, share * sum_of_nll(call, logits, m, log_sum));
  }
}

/* p_i = e_i / sum. Without smoothing dlogits = w_y * (p_i - (i == y ? 1 : 0)) / divisor. With smoothing s, kept = (1 -
 * s) * w_y, share = s / classes, a = fma(share, sum of the weights, kept), t = share * w_i, at i = y fma(share, w_y,
 * kept): dlogits = fma(a, p_i, -t) / divisor. */
static void cross_entropy_dx(const hd_call *call) {
  int classes = call->g->ci;
  if (call->g->soft_labels) {
    soft_cross_entropy_dx(call);
    return;
  }
  real smoothing = (real)call->g->label_smoothing, share = smoothing / (real)classes, all = sum_of_weights(call);
  for (int64_t n = 0; n < call->rows; n++) {
    const real *logits = row_of(call, 0, n);
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    int32_t label = label_of(call, n);
    bool counts = label != call->g->ignore_index;
    real m = largest(logits, classes), sum = sum_of_exp(logits, classes, m), w = counts ? weight_of(call, label) : 0;
    real kept = (1 - smoothing) * w, a = REAL_FMA(share, all, kept);
    for (int i = 0; i < classes; i++) {
      real p = REAL_EXP(logits[i] - m) / sum;
      real hard = w * (p - (i == label ? 1 : 0));
      real soft =
          REAL_FMA(a, p, -(i == label ? REAL_FMA(share, weight_of(call, i), kept) : share * weight_of(call, i)));
      dx[i] = counts ? (smoothing > 0 ? soft : hard) / (real)call->divisor : 0;
    }
  }
}

/* An element-wise loss: the sample's chains take term after term. */
typedef real term_fn(const hd_call *call, int32_t i, real y, real target, real chain);
typedef real slope_fn(const hd_call *call, int32_t i, real y, real target);

static void sum_terms(const hd_call *call, term_fn *term) {
  for (int64_t n = 0; n < call->rows; n++) {
    const real *y = row_of(call, 0, n), *target = row_of(call, 1, n);
    real chain[16] = {0};
    for (int32_t i = 0; i < call->g->ci; i++)
      chain[i % 16] = term(call, i, y[i], target[i], chain[i % 16]);
    ((real *)call->out[0])[n * call->out_stride[0]] = tree16(chain);
  }
}

static void divide_slopes(const hd_call *call, slope_fn *slope) {
  for (int64_t n = 0; n < call->rows; n++) {
    const real *y = row_of(call, 0, n), *target = row_of(call, 1, n);
    real *dy = (real *)call->out[0] + n * call->out_stride[0];
    for (int32_t i = 0; i < call->g->ci; i++)
      dy[i] = slope(call, i, y[i], target[i]) / (real)call->divisor;
  }
}

/* d = y - target; chain = fma(d, d, chain); slope d + d. */
static real mse_term(const hd_call *call, int32_t i, real y, real target, real chain) {
  real d = y - target;
  return REAL_FMA(d, d, chain);
}

static real mse_slope(const hd_call *call, int32_t i, real y, real target) {
  real d = y - target;
  return d + d;
}

static real magnitude(real d) { return d < 0 ? -d : d; }

/* chain = chain + |d|; slope 1, -1, or d itself (a zero, a NaN). */
static real l1_term(const hd_call *call, int32_t i, real y, real target, real chain) {
  return chain + magnitude(y - target);
}

static real l1_slope(const hd_call *call, int32_t i, real y, real target) {
  real d = y - target;
  return d > 0 ? 1 : d < 0 ? -1 : d;
}

/* chain = chain + (|d| < delta ? (|d| / 2) * |d| : delta * (|d| - delta / 2)); slope d, within -delta and delta. */
static real huber_term(const hd_call *call, int32_t i, real y, real target, real chain) {
  real delta = (real)call->g->delta, a = magnitude(y - target), half = (real)0.5;
  return chain + (a < delta ? (half * a) * a : delta * (a - half * delta));
}

static real huber_slope(const hd_call *call, int32_t i, real y, real target) {
  real delta = (real)call->g->delta, d = y - target;
  return d > delta ? delta : d < -delta ? -delta : d;
}

/* log(1 + e) for 0 <= e <= 1, small e included: u = 1 + e; u == 1 ? e : log(u) * e / (u - 1). */
static real log_1_plus(real e) {
  real u = 1 + e;
  return u == 1 ? e : REAL_LOG(u) * e / (u - 1);
}

/* e = exp(-|y|), w = pos_weight (1 if absent): chain = chain + fma(fma(w - 1, target, 1), log(1 + e) + (y < 0 ? -y :
 * 0), (1 - target) * y). */
static real bce_term(const hd_call *call, int32_t i, real y, real target, real chain) {
  real log_weight = REAL_FMA(weight_of(call, i) - 1, target, 1);
  real softplus = log_1_plus(REAL_EXP(-magnitude(y))) + (y < 0 ? -y : 0);
  return chain + REAL_FMA(log_weight, softplus, (1 - target) * y);
}

/* sigma = (y < 0 ? e : 1) / (1 + e); slope fma(fma(w, target, 1 - target), sigma, -(w * target)). */
static real bce_slope(const hd_call *call, int32_t i, real y, real target) {
  real e = REAL_EXP(-magnitude(y)), w = weight_of(call, i);
  real sigma = (y < 0 ? e : 1) / (1 + e);
  return REAL_FMA(REAL_FMA(w, target, 1 - target), sigma, -(w * target));
}

static void mse(const hd_call *call) { sum_terms(call, mse_term); }
static void mse_dx(const hd_call *call) { divide_slopes(call, mse_slope); }
static void l1(const hd_call *call) { sum_terms(call, l1_term); }
static void l1_dx(const hd_call *call) { divide_slopes(call, l1_slope); }
static void huber(const hd_call *call) { sum_terms(call, huber_term); }
static void huber_dx(const hd_call *call) { divide_slopes(call, huber_slope); }
static void bce_with_logits(const hd_call *call) { sum_terms(call, bce_term); }
static void bce_with_logits_dx(const hd_call *call) { divide_slopes(call, bce_slope); }

void REF(loss_fill)(hd_kernels *table) {
  table->run[HD_OP_cross_entropy] = cross_entropy;
  table->run[HD_OP_cross_entropy_dx] = cross_entropy_dx;
  table->run[HD_OP_mse] = mse;
  table->run[HD_OP_mse_dx] = mse_dx;
  table->run[HD_OP_l1] = l1;
  table->run[HD_OP_l1_dx] = l1_dx;
  table->run[HD_OP_huber] = huber;
  table->run[HD_OP_huber_dx] = huber_dx;
  table->run[HD_OP_bce_with_logits] = bce_with_logits;
  table->run[HD_OP_bce_with_logits_dx] = bce_with_logits_dx;
}
