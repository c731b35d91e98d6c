/* Norms over the channels of each pixel, groups along the channels; see line_norm.h.
 *
 * LINE_NORM16(NAME, CENTRED) makes the kernels NAME, NAME_dx and NAME_dw, and their fill. */
#pragma once

#include <string.h>

#include "op/norm_cpu.h"

G16 moments line_moments16(const hd_geom *g, const float *x, int centred) {
  const g16 all = g16_all((float)g->ci);
  g16 square = g16_zero();
  if (centred)
    return moments_of(x, g->ci, g->norm.eps);
  for (int c = 0; c < g->ci; c += 16) {
    const g16 v = g16_load_some(x + c, g->ci - c);
    square = g16_keep_tail(square, g16_fma(v, v, square), g->ci - c);
  }
  const g16 mean = g16_div(g16_all(g16_tree(square)), all);
  return (moments){g16_zero(), g16_div(g16_all(1), g16_sqrt(g16_add(mean, g16_all(g->norm.eps))))};
}

G16 void line_norm16(const hd_call *call, int centred) {
  const hd_geom *g = call->g;
  const float *w = call->in[1], *b = call->in[2];
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t first = 0; first < elems_of(g); first += g->ci) {
      const float *x = in_row(call, 0, n) + first;
      float *y = out_row(call, 0, n) + first;
      const moments m = line_moments16(g, x, centred);
      for (int c = 0; c < g->ci; c += 16) {
        const int64_t left = g->ci - c;
        const g16 xhat = normalised(m, g16_load_some(x + c, left)), weight = g16_load_some(w + c, left);
        g16_store_some(y + c, centred ? g16_fma(xhat, weight, g16_load_some(b + c, left)) : g16_mul(xhat, weight),
                       left);
      }
    }
}

G16 void line_norm16_dx(const hd_call *call, int centred) {
  const hd_geom *g = call->g;
  const g16 all = g16_all((float)g->ci);
  const float *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t first = 0; first < elems_of(g); first += g->ci) {
      const float *dy = in_row(call, 0, n) + first, *x = in_row(call, 2, n) + first;
      float *dx = out_row(call, 0, n) + first;
      const moments m = line_moments16(g, x, centred);
      const norm_sums sums = norm_sums_of(m, dy, w, x, g->ci);
      const g16 a = centred ? g16_div(g16_all(sums.h), all) : g16_zero(), b = g16_div(g16_all(sums.dot), all);
      for (int c = 0; c < g->ci; c += 16) {
        const int64_t left = g->ci - c;
        g16_store_some(dx + c, norm16_slope(m, norm16_h(dy + c, w + c, left), g16_load_some(x + c, left), a, b), left);
      }
    }
}

/* Adds the terms of one pixel to the sums, either of which may be NULL. */
G16 void line_norm16_add(const hd_geom *g, moments m, const float *x, const float *dy, float *dw, float *db) {
  for (int c = 0; c < g->ci; c += 16) {
    const int64_t left = g->ci - c;
    g16_fetch(x + c);
    const g16 d = g16_load_some(dy + c, left), xhat = normalised(m, g16_load_some(x + c, left));
    if (dw)
      g16_store_some(dw + c, g16_fma(d, xhat, g16_load_some(dw + c, left)), left);
    if (db)
      g16_store_some(db + c, g16_add(g16_load_some(db + c, left), d), left);
  }
}

G16 void line_norm16_dw(const hd_call *call, int centred) {
  const hd_geom *g = call->g;
  float *dw = call->out[0], *db = call->out[1];
  if (dw)
    memset(dw, 0, (size_t)g->ci * sizeof *dw);
  if (db)
    memset(db, 0, (size_t)g->ci * sizeof *db);
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t first = 0; first < elems_of(g); first += g->ci) {
      const float *x = in_row(call, 0, n) + first;
      line_norm16_add(g, line_moments16(g, x, centred), x, in_row(call, 1, n) + first, dw, db);
    }
}

#define LINE_NORM16(name, centred)                                                                                     \
  static void run_##name(const hd_call *call) { line_norm16(call, centred); }                                          \
  static void run_##name##_dx(const hd_call *call) { line_norm16_dx(call, centred); }                                  \
  static void run_##name##_dw(const hd_call *call) { line_norm16_dw(call, centred); }                                  \
  void HD_SYM(name##_fill)(hd_kernels * table) {                                                                       \
    table->run[HD_OP_##name] = run_##name;                                                                             \
    table->run[HD_OP_##name##_dx] = run_##name##_dx;                                                                   \
    table->run[HD_OP_##name##_dw] = run_##name##_dw;                                                                   \
  }
