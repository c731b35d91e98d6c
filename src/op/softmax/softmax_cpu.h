/* Shared by softmax and cross-entropy: the maximum of a row and the sum of its exponentials, groups along the row.
 *
 * The maximum may be taken in any order: only its value matters, and any NaN makes it NaN (no result depends on which
 * of two zeros it is). The sum of exponentials is the 16 interleaved chains of a group, a short last group under a
 * mask, then the fixed tree. */
#pragma once

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

static inline float largest(const float *x, int count) {
  g16 best = g16_all(x[0]);
  int i = 0;
  for (; i + 16 <= count; i += 16)
    best = g16_take_over(best, g16_load(x + i));
  if (i < count) {
    g16_mask mask = g16_first(count - i);
    best = g16_take_over(best, g16_choose(mask, g16_load_mask(x + i, mask), best));
  }
  return g16_largest(best);
}

static inline float sum_of_exp(const float *x, int count, float m) {
  g16 chains = g16_zero(), shift = g16_all(m);
  int i = 0;
  for (; i + 16 <= count; i += 16)
    chains = g16_add(chains, g16_exp(g16_sub(g16_load(x + i), shift)));
  if (i < count) {
    g16_mask mask = g16_first(count - i);
    g16 more = g16_add(chains, g16_exp(g16_sub(g16_load_mask(x + i, mask), shift)));
    chains = g16_choose(mask, more, chains);
  }
  return g16_tree(chains);
}

/* Every pixel of a call: y of x, and dx of dy and y. */
G16 void each_pixel(const hd_call *call, void (*of)(const float *x, float *y, int channels)) {
  const int c = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t p = 0; p < pixels_of(call->g); p++)
      of(in_row(call, 0, n) + p * c, out_row(call, 0, n) + p * c, c);
}

G16 void each_pixel_dx(const hd_call *call, void (*of)(const float *dy, const float *y, float *dx, int channels)) {
  const int c = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t p = 0; p < pixels_of(call->g); p++)
      of(in_row(call, 0, n) + p * c, in_row(call, 1, n) + p * c, out_row(call, 0, n) + p * c, c);
}
