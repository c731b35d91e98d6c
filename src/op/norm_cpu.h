/* The sums of norms (norm.h) along the elements of a group of channels, which are contiguous: the 16 chains are the
 * lanes. */
#pragma once

#include "kernel/cpu/group16.h"

typedef struct moments {
  g16 mean, r;
} moments;

G16 moments moments_of(const float *x, int64_t count, float eps) {
  g16 sum = g16_zero(), square = g16_zero(), all = g16_all((float)count);
  for (int64_t i = 0; i < count; i += 16)
    sum = g16_keep_tail(sum, g16_add(sum, g16_load_some(x + i, count - i)), count - i);
  g16 mean = g16_div(g16_all(g16_tree(sum)), all);
  for (int64_t i = 0; i < count; i += 16) {
    g16 d = g16_sub(g16_load_some(x + i, count - i), mean);
    square = g16_keep_tail(square, g16_fma(d, d, square), count - i);
  }
  g16 var = g16_div(g16_all(g16_tree(square)), all);
  return (moments){mean, g16_div(g16_all(1), g16_sqrt(g16_add(var, g16_all(eps))))};
}

G16 g16 normalised(moments m, g16 x) { return g16_mul(g16_sub(x, m.mean), m.r); }

/* h = dy * w; without w it is dy. */
G16 g16 norm16_h(const float *dy, const float *w, int64_t left) {
  const g16 d = g16_load_some(dy, left);
  return w ? g16_mul(d, g16_load_some(w, left)) : d;
}

/* The sums of h and of h * xhat. */
typedef struct norm_sums {
  float h, dot;
} norm_sums;

G16 norm_sums norm_sums_of(moments m, const float *dy, const float *w, const float *x, int64_t count) {
  g16 sum = g16_zero(), dot = g16_zero();
  for (int64_t i = 0; i < count; i += 16) {
    const int64_t left = count - i;
    const g16 h = norm16_h(dy + i, w ? w + i : NULL, left), xhat = normalised(m, g16_load_some(x + i, left));
    sum = g16_keep_tail(sum, g16_add(sum, h), left);
    dot = g16_keep_tail(dot, g16_fma(h, xhat, dot), left);
  }
  return (norm_sums){g16_tree(sum), g16_tree(dot)};
}

/* dx = r * (h - fma(xhat, b, a)) */
G16 g16 norm16_slope(moments m, g16 h, g16 x, g16 a, g16 b) {
  return g16_mul(m.r, g16_sub(h, g16_fma(normalised(m, x), b, a)));
}
