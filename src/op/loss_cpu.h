/* Losses that take one term per output, by groups of sixteen along the outputs: each lane computes the term and adds it
 * to its chain; a short last group is masked. The functions are inlined for every term: there is no call through a
 * pointer. */
#pragma once

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

typedef g16 loss16_term(const hd_call *call, int32_t i, g16 y, g16 target, g16 chains);
typedef g16 loss16_slope(const hd_call *call, int32_t i, g16 y, g16 target);

G16 void loss16_sum(const hd_call *call, loss16_term *term) {
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

G16 void loss16_divide(const hd_call *call, loss16_slope *slope) {
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
G16 g16 loss16_minus(g16 x) { return g16_mul(g16_all(-1), x); }
G16 g16 loss16_magnitude(g16 x) { return g16_choose(g16_less(x, g16_zero()), loss16_minus(x), x); }

/* The positive examples' weights of the outputs from i on. */
G16 g16 loss16_weights(const hd_call *call, int32_t i) {
  return call->in[2] ? g16_load_some((const float *)call->in[2] + i, call->g->ci - i) : g16_all(1);
}
