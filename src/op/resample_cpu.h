/* Operations that move pixels, by groups of sixteen channels; see resample.h. The gradient goes over the output's
 * pixels, each of which adds to what it reads: for an input's pixel that is the order of its chain.
 *
 * RESAMPLE16(NAME) makes the kernels NAME and NAME_dx of NAME_tap, and their fill. */
#pragma once

#include <string.h>

#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"
#include "op/resample.h"

typedef resample_tap resample_tap_of(const hd_geom *g, int axis, int o);

G16 g16 resample16_row(const float *x, resample_tap tap, int64_t step, int64_t left) {
  const float *at = x + tap.at * step;
  const g16 first = g16_load_some(at, left);
  if (!(tap.more > 0))
    return first;
  return g16_fma(g16_all(tap.more), g16_load_some(at + step, left), g16_mul(g16_all(1 - tap.more), first));
}

G16 g16 resample16_value(const hd_geom *g, const float *x, resample_tap down, resample_tap across, int64_t left) {
  const int64_t line = (int64_t)g->wi * g->ci;
  const float *row = x + down.at * line;
  const g16 above = resample16_row(row, across, g->ci, left);
  if (!(down.more > 0))
    return above;
  return g16_fma(g16_all(down.more), resample16_row(row + line, across, g->ci, left),
                 g16_mul(g16_all(1 - down.more), above));
}

G16 void resample16_forward(const hd_call *call, resample_tap_of *tap) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int i = 0; i < g->ho * g->wo; i++) {
      const resample_tap down = tap(g, 0, i / g->wo), across = tap(g, 1, i % g->wo);
      float *y = out_row(call, 0, n) + (int64_t)i * g->ci;
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(y + c,
                       down.at < 0 || across.at < 0
                           ? g16_zero()
                           : resample16_value(g, in_row(call, 0, n) + c, down, across, g->ci - c),
                       g->ci - c);
    }
}

/* Adds a share of dy to one pixel. */
G16 void resample16_add(const hd_geom *g, float *dx, const float *dy, float share) {
  for (int c = 0; c < g->ci; c += 16) {
    const g16 sum = g16_fma(g16_all(share), g16_load_some(dy + c, g->ci - c), g16_load_some(dx + c, g->ci - c));
    g16_store_some(dx + c, sum, g->ci - c);
  }
}

G16 void resample16_back(const hd_call *call, resample_tap_of *tap) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    float *dx = out_row(call, 0, n);
    memset(dx, 0, (size_t)elems_of(g) * sizeof *dx);
    for (int i = 0; i < g->ho * g->wo; i++) {
      const resample_tap down = tap(g, 0, i / g->wo), across = tap(g, 1, i % g->wo);
      const float *dy = in_row(call, 0, n) + (int64_t)i * g->ci;
      for (int y = down.at; down.at >= 0 && y <= down.at + (down.more > 0); y++)
        for (int x = across.at; across.at >= 0 && x <= across.at + (across.more > 0); x++)
          resample16_add(g, dx + ((int64_t)y * g->wi + x) * g->ci, dy,
                         resample_share(down, y) * resample_share(across, x));
    }
  }
}

#define RESAMPLE16(name)                                                                                               \
  static void run_##name(const hd_call *call) { resample16_forward(call, name##_tap); }                                \
  static void run_##name##_dx(const hd_call *call) { resample16_back(call, name##_tap); }                              \
  void HD_SYM(name##_fill)(hd_kernels * table) {                                                                       \
    table->run[HD_OP_##name] = run_##name;                                                                             \
    table->run[HD_OP_##name##_dx] = run_##name##_dx;                                                                   \
  }
