/* Applies a function to sixteen elements at a time: y = f(x), and dx = f(dy, x or y). Each lane is the chain of its
 * element. Inputs may be the output: every element is read before it is written. f is inlined. */
#pragma once

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

typedef g16 g16_unary(const hd_geom *g, g16 x);
typedef g16 g16_binary(const hd_geom *g, g16 dy, g16 other);

G16 void g16_each(const hd_call *call, g16_unary *f) {
  const int64_t count = (int64_t)call->g->ci * call->g->hi * call->g->wi;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = (const float *)call->in[0] + n * call->in_stride[0];
    float *y = (float *)call->out[0] + n * call->out_stride[0];
    for (int64_t i = 0; i < count; i += 16)
      g16_store_some(y + i, f(call->g, g16_load_some(x + i, count - i)), count - i);
  }
}

G16 void g16_each_dx(const hd_call *call, g16_binary *f) {
  const int64_t count = (int64_t)call->g->ci * call->g->hi * call->g->wi;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = (const float *)call->in[0] + n * call->in_stride[0];
    const float *other = (const float *)call->in[1] + n * call->in_stride[1];
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    for (int64_t i = 0; i < count; i += 16) {
      g16 d = f(call->g, g16_load_some(dy + i, count - i), g16_load_some(other + i, count - i));
      g16_store_some(dx + i, d, count - i);
    }
  }
}

G16 g16 g16_minus(g16 x) { return g16_sub(g16_zero(), x); }

/* fma(-a, a, 1); the sign of a zero does not show in it. */
G16 g16 g16_one_minus_square(g16 a) { return g16_fma(g16_minus(a), a, g16_all(1)); }
