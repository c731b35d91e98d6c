/* Losses that take one term per output (mse, l1, huber, bce_with_logits) and their gradients: groups along the
 * outputs.
 *
 * Each lane computes the reference's term and adds it to its chain; a short last group is masked. The two loops
 * below are inlined for every term: there is no call through a pointer. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

typedef g16 term_fn(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains);
typedef g16 slope_fn(const hd_call *call, int32_t i, g16 y, g16 target);

G16 void sum_terms(const hd_call *call, term_fn *term) {
  const int32_t count = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *y = (const float *)call->in[0] + n * call->in_stride[0];
    const float *target = (const float *)call->in[1] + n * call->in_stride[1];
    g16 chains = g16_zero();
    for (int32_t i = 0; i < count; i += 16) {
      g16 more = term(call, i, g16_load_some(y + i, count - i), g16_load_some(target + i, count - i), chains);
      chains = count - i >= 16 ? more : g16_choose(g16_first(count - i), more, chains);
    }
    ((float *)call->out[0])[n * call->out_stride[0]] = g16_tree(chains);
  }
}

G16 void divide_slopes(const hd_call *call, slope_fn *slope) {
  const int32_t count = call->g->ci;
  const g16 divisor = g16_all(call->divisor);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *y = (const float *)call->in[0] + n * call->in_stride[0];
    const float *target = (const float *)call->in[1] + n * call->in_stride[1];
    float *dy = (float *)call->out[0] + n * call->out_stride[0];
    for (int32_t i = 0; i < count; i += 16) {
      g16 d = slope(call, i, g16_load_some(y + i, count - i), g16_load_some(target + i, count - i));
      g16_store_some(dy + i, g16_div(d, divisor), count - i);
    }
  }
}

/* The sign turned, that of a zero too. */
G16 g16 negative(g16 x) { return g16_mul(g16_all(-1), x); }
G16 g16 magnitude(g16 x) { return g16_choose(g16_less(x, g16_zero()), negative(x), x); }

G16 g16 mse_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains) {
  g16 d = g16_sub(y, target);
  return g16_fma(d, d, chains);
}

G16 g16 mse_slope(const hd_call *call, int32_t i, g16 y, g16 target) {
  g16 d = g16_sub(y, target);
  return g16_add(d, d);
}

G16 g16 l1_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains) {
  return g16_add(chains, magnitude(g16_sub(y, target)));
}

G16 g16 l1_slope(const hd_call *call, int32_t i, g16 y, g16 target) {
  g16 d = g16_sub(y, target);
  g16 slope = g16_choose(g16_less(d, g16_zero()), g16_all(-1), d);
  return g16_choose(g16_less(g16_zero(), d), g16_all(1), slope);
}

G16 g16 huber_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains) {
  const float delta = call->g->delta;
  g16 a = magnitude(g16_sub(y, target));
  g16 near = g16_mul(g16_mul(g16_all(0.5f), a), a);
  g16 far = g16_mul(g16_all(delta), g16_sub(a, g16_all(0.5f * delta)));
  return g16_add(chains, g16_choose(g16_less(a, g16_all(delta)), near, far));
}

G16 g16 huber_slope(const hd_call *call, int32_t i, g16 y, g16 target) {
  const float delta = call->g->delta;
  g16 d = g16_sub(y, target);
  g16 slope = g16_choose(g16_less(d, g16_all(-delta)), g16_all(-delta), d);
  return g16_choose(g16_less(g16_all(delta), d), g16_all(delta), slope);
}

/* The positive examples' weights of the outputs from i on. */
G16 g16 weights_at(const hd_call *call, int32_t i) {
  return call->in[2] ? g16_load_some((const float *)call->in[2] + i, call->g->ci - i) : g16_all(1);
}

/* log(1 + e), lane by lane. */
static g16 log_1_plus(g16 e) {
  float lane[16];
  g16_store(lane, e);
  for (int c = 0; c < 16; c++) {
    float u = 1 + lane[c];
    lane[c] = u == 1 ? lane[c] : hd__logf(u) * lane[c] / (u - 1);
  }
  return g16_load(lane);
}

G16 g16 bce_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains) {
  g16 one = g16_all(1);
  g16 log_weight = g16_fma(g16_sub(weights_at(call, i), one), target, one);
  g16 below = g16_choose(g16_less(y, g16_zero()), negative(y), g16_zero());
  g16 softplus = g16_add(log_1_plus(g16_exp(negative(magnitude(y)))), below);
  return g16_add(chains, g16_fma(log_weight, softplus, g16_mul(g16_sub(one, target), y)));
}

G16 g16 bce_slope(const hd_call *call, int32_t i, g16 y, g16 target) {
  g16 one = g16_all(1), e = g16_exp(negative(magnitude(y))), w = weights_at(call, i);
  g16 sigma = g16_div(g16_choose(g16_less(y, g16_zero()), e, one), g16_add(one, e));
  return g16_fma(g16_fma(w, target, g16_sub(one, target)), sigma, negative(g16_mul(w, target)));
}

static void mse(const hd_call *call) { sum_terms(call, mse_term); }
static void mse_dx(const hd_call *call) { divide_slopes(call, mse_slope); }
static void l1(const hd_call *call) { sum_terms(call, l1_term); }
static void l1_dx(const hd_call *call) { divide_slopes(call, l1_slope); }
static void huber(const hd_call *call) { sum_terms(call, huber_term); }
static void huber_dx(const hd_call *call) { divide_slopes(call, huber_slope); }
static void bce_with_logits(const hd_call *call) { sum_terms(call, bce_term); }
static void bce_with_logits_dx(const hd_call *call) { divide_slopes(call, bce_slope); }

void HD_SYM(loss_terms_fill)(hd_kernels *table) {
  table->run[HD_OP_mse] = mse;
  table->run[HD_OP_mse_dx] = mse_dx;
  table->run[HD_OP_l1] = l1;
  table->run[HD_OP_l1_dx] = l1_dx;
  table->run[HD_OP_huber] = huber;
  table->run[HD_OP_huber_dx] = huber_dx;
  table->run[HD_OP_bce_with_logits] = bce_with_logits;
  table->run[HD_OP_bce_with_logits_dx] = bce_with_logits_dx;
}
