/* Applies a function to sixteen elements at a time: y = f(x), and dx = f(dy, x or y). Each lane is the chain of its
 * element. Inputs may be the output: every element is read before it is written. f is inlined.
 *
 * EACH16(NAME) makes the kernels NAME and NAME_dx of NAME_16 and NAME_dx_16, and their fill. */
#pragma once

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

typedef g16 g16_unary(const hd_geom *g, g16 x);
typedef g16 g16_binary(const hd_geom *g, g16 dy, g16 other);

G16 void g16_each(const hd_call *call, g16_unary *f) {
  const int64_t count = elems_of(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    for (int64_t i = 0; i < count; i += 16)
      g16_store_some(y + i, f(call->g, g16_load_some(x + i, count - i)), count - i);
  }
}

G16 void g16_each_dx(const hd_call *call, g16_binary *f) {
  const int64_t count = elems_of(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n);
    const float *other = in_row(call, 1, n);
    float *dx = out_row(call, 0, n);
    for (int64_t i = 0; i < count; i += 16) {
      g16_fetch(other + i);
      g16 d = f(call->g, g16_load_some(dy + i, count - i), g16_load_some(other + i, count - i));
      g16_store_some(dx + i, d, count - i);
    }
  }
}

/* fma(-a, a, 1); the sign of a zero does not show in it. */
G16 g16 g16_one_minus_square(g16 a) { return g16_fma(g16_sub(g16_zero(), a), a, g16_all(1)); }

#define EACH16(name)                                                                                                   \
  static void run_##name(const hd_call *call) { g16_each(call, name##_16); }                                           \
  static void run_##name##_dx(const hd_call *call) { g16_each_dx(call, name##_dx_16); }                                \
  void HD_SYM(name##_fill)(hd_kernels * table) {                                                                       \
    table->run[HD_OP_##name] = run_##name;                                                                             \
    table->run[HD_OP_##name##_dx] = run_##name##_dx;                                                                   \
  }
