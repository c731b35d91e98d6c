/* The units of an operation that moves pixels: each output pixel is one pixel of the input or lies between neighbours.
 * Its header defines NAME_tap(g, axis, o), which says for place o of the output, along axis 0 down or 1 across, what it
 * reads, and ends with OP_RESAMPLE(NAME). */
#pragma once

#include "kernel/unit.h"

/* Place `at` of the input, -1 for zero; the next one has the share `more` < 1, and the first one the rest. */
typedef struct resample_tap {
  int at;
  real more;
} resample_tap;

HD_BOTH real resample_mix(real a, real b, real more) { return REAL_FMA(more, b, (1 - more) * a); }

/* Along a row: the pixels from x on, `step` elements apart. */
HD_BOTH real resample_row(const real *x, resample_tap tap, int64_t step) {
  const real *at = x + tap.at * step;
  return tap.more > 0 ? resample_mix(at[0], at[step], tap.more) : at[0];
}

/* The share of a place in what a tap reads. */
HD_BOTH real resample_share(resample_tap tap, int place) {
  return tap.at == place ? 1 - tap.more : tap.at >= 0 && tap.at + 1 == place ? tap.more : 0;
}

/* x: the channel of the first pixel. */
HD_BOTH real resample_value(const hd_geom *g, const real *x, resample_tap down, resample_tap across) {
  const int64_t line = (int64_t)g->wi * g->ci;
  if (down.at < 0 || across.at < 0)
    return 0;
  const real *row = x + down.at * line;
  const real above = resample_row(row, across, g->ci);
  return down.more > 0 ? resample_mix(above, resample_row(row + line, across, g->ci), down.more) : above;
}

#define OP_RESAMPLE(name)                                                                                              \
  HD_BOTH int64_t name##_count(const hd_geom *g) { return (int64_t)g->ho * g->wo * g->ci; }                            \
  HD_BOTH int64_t name##_dx_count(const hd_geom *g) { return op_elems(g); }                                            \
  HD_BOTH void name##_at(const op_call *c, int64_t n, int64_t i) {                                                     \
    const hd_geom *g = op_geom(c);                                                                                     \
    const int pixel = (int)(i / g->ci);                                                                                \
    op_out(c, 0, n)[i] = resample_value(g, op_in(c, 0, n) + i % g->ci, name##_tap(g, 0, pixel / g->wo),                \
                                        name##_tap(g, 1, pixel % g->wo));                                              \
  }                                                                                                                    \
  HD_BOTH void name##_dx_at(const op_call *c, int64_t n, int64_t i) {                                                  \
    const hd_geom *g = op_geom(c);                                                                                     \
    const int pixel = (int)(i / g->ci), y = pixel / g->wi, x = pixel % g->wi;                                          \
    real acc = 0;                                                                                                      \
    for (int oy = 0; oy < g->ho; oy++) {                                                                               \
      const real down = resample_share(name##_tap(g, 0, oy), y);                                                       \
      for (int ox = 0; down > 0 && ox < g->wo; ox++) {                                                                 \
        const real across = resample_share(name##_tap(g, 1, ox), x);                                                   \
        if (across > 0)                                                                                                \
          acc = REAL_FMA(down * across, op_in(c, 0, n)[((int64_t)oy * g->wo + ox) * g->ci + i % g->ci], acc);          \
      }                                                                                                                \
    }                                                                                                                  \
    op_out(c, 0, n)[i] = acc;                                                                                          \
  }
