/* Losses that take one term per output, by groups of sixteen along the outputs: each lane computes the term and adds it
 * to its chain; a short last group is masked. The functions are inlined for every term: there is no call through a
 * pointer.
 *
 * LOSS16(NAME) makes the kernels NAME and NAME_dx of NAME_term and NAME_slope, and their fill. */
#pragma once

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

typedef g16 loss16_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains);
typedef g16 loss16_slope(const hd_call *call, int32_t i, g16 y, g16 target);

G16 void loss16_sum(const hd_call *call, loss16_term *term) {
  const int32_t count = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *y = in_row(call, 0, n);
    const float *target = in_row(call, 1, n);
    g16 chains = g16_zero();
    for (int32_t i = 0; i < count; i += 16) {
      g16 more = term(call, i, g16_load_some(y + i, count - i), g16_load_some(target + i, count - i), chains);
      chains = g16_keep_tail(chains, more, count - i);
    }
    *out_row(call, 0, n) = g16_tree(chains);
  }
}

G16 void loss16_divide(const hd_call *call, loss16_slope *slope) {
  const int32_t count = call->g->ci;
  const g16 divisor = g16_all(call->divisor);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *y = in_row(call, 0, n);
    const float *target = in_row(call, 1, n);
    float *dy = out_row(call, 0, n);
    for (int32_t i = 0; i < count; i += 16) {
      g16 d = slope(call, i, g16_load_some(y + i, count - i), g16_load_some(target + i, count - i));
      g16_store_some(dy + i, g16_div(d, divisor), count - i);
    }
  }
}

/* -x, also of a zero. */
G16 g16 loss16_minus(g16 x) { return g16_mul(g16_all(-1), x); }
G16 g16 loss16_magnitude(g16 x) { return g16_choose(g16_less(x, g16_zero()), loss16_minus(x), x); }

/* The positive examples' weights of the outputs from i on. */
G16 g16 loss16_weights(const hd_call *call, int32_t i) {
  return call->in[2] ? g16_load_some((const float *)call->in[2] + i, call->g->ci - i) : g16_all(1);
}

#define LOSS16(name)                                                                                                   \
  static void run_##name(const hd_call *call) { loss16_sum(call, name##_term); }                                       \
  static void run_##name##_dx(const hd_call *call) { loss16_divide(call, name##_slope); }                              \
  void HD_SYM(name##_fill)(hd_kernels * table) {                                                                       \
    table->run[HD_OP_##name] = run_##name;                                                                             \
    table->run[HD_OP_##name##_dx] = run_##name##_dx;                                                                   \
  }
