/* The windows of pooling, with channels in vector lanes: a window's mean and maximum, and their gradients, which are
 * added to the window's pixels. A pixel is numbered inside its window, line after line of `width` pixels; the numbers
 * are floats in lanes, exact below WINDOW_PIXELS. */
#pragma once

#include "kernel/cpu/argmax16.h"

enum { WINDOW_PIXELS = 1 << 24 };

/* The positions of a window that lie inside of the image: [y0, y1) by [x0, x1), counted inside the window. */
typedef struct window16 {
  int top, left, y0, y1, x0, x1, width;
} window16;

static inline window16 window16_at(const hd_geom *g, int oy, int ox) {
  window16 w = {.top = oy * g->window.sh - g->window.ph, .left = ox * g->window.sw - g->window.pw};
  w.y0 = w.top < 0 ? -w.top : 0;
  w.x0 = w.left < 0 ? -w.left : 0;
  w.y1 = w.top + g->window.kh > g->hi ? g->hi - w.top : g->window.kh;
  w.x1 = w.left + g->window.kw > g->wi ? g->wi - w.left : g->window.kw;
  w.width = g->window.kw;
  return w;
}

/* All pixels. */
static inline window16 window16_all(const hd_geom *g) { return (window16){.y1 = g->hi, .x1 = g->wi, .width = g->wi}; }

/* The elements before the window's pixel (ky, kx). */
static inline int64_t window16_place(const hd_geom *g, const window16 *w, int ky, int kx) {
  return ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci;
}

/* x, dx: a group of `count` channels, of the image's first pixel. */
G16 g16 window16_mean(const hd_geom *g, const window16 *w, g16 divisor, const float *x, int count) {
  g16 sum = g16_zero();
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++)
      sum = g16_add(sum, g16_load_some(x + window16_place(g, w, ky, kx), count));
  return g16_div(sum, divisor);
}

/* Adds a share to each pixel. */
G16 void window16_share(const hd_geom *g, const window16 *w, g16 share, float *dx, int count) {
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      float *at = dx + window16_place(g, w, ky, kx);
      g16_store_some(at, g16_add(g16_load_some(at, count), share), count);
    }
}

/* Pools: the mean of each window, and its gradient. `window` and `divisor` are constants where these are inlined. */
typedef window16 window16_of(const hd_geom *g, int oy, int ox);
typedef float window16_divisor(const hd_geom *g, int oy, int ox);

G16 void windows16_mean(const hd_call *call, window16_of *window, window16_divisor *divisor) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int i = 0; i < g->ho * g->wo; i++) {
      const window16 w = window(g, i / g->wo, i % g->wo);
      const g16 by = g16_all(divisor(g, i / g->wo, i % g->wo));
      float *y = out_row(call, 0, n) + (int64_t)i * g->ci;
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(y + c, window16_mean(g, &w, by, in_row(call, 0, n) + c, g->ci - c), g->ci - c);
    }
}

G16 void windows16_share(const hd_call *call, window16_of *window, window16_divisor *divisor) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    float *dx = out_row(call, 0, n);
    memset(dx, 0, (size_t)elems_of(g) * sizeof *dx);
    for (int i = 0; i < g->ho * g->wo; i++) {
      const window16 w = window(g, i / g->wo, i % g->wo);
      const g16 by = g16_all(divisor(g, i / g->wo, i % g->wo));
      const float *dy = in_row(call, 0, n) + (int64_t)i * g->ci;
      for (int c = 0; c < g->ci; c += 16)
        window16_share(g, &w, g16_div(g16_load_some(dy + c, g->ci - c), by), dx + c, g->ci - c);
    }
  }
}

/* The maximum, and the number of its pixel. */
typedef struct most16 {
  g16 value, number;
} most16;

G16 most16 window16_most(const hd_geom *g, const window16 *w, const float *x, int count) {
  g16 best = g16_zero(), taken = g16_zero();
  int first = 1;
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      g16 v = g16_load_some(x + window16_place(g, w, ky, kx), count);
      g16 number = g16_all((float)(ky * w->width + kx));
      g16_mask over = g16_or(g16_less(best, v), g16_nan(v));
      best = first ? v : g16_choose(over, v, best);
      taken = first ? number : g16_choose(over, number, taken);
      first = 0;
    }
  return (most16){best, taken};
}

/* Adds dy to the pixel of this number in each lane. */
G16 void window16_give(const hd_geom *g, const window16 *w, g16 dy, g16 number, float *dx, int count) {
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      float *at = dx + window16_place(g, w, ky, kx);
      g16 old = g16_load_some(at, count);
      g16_mask here = g16_equal(number, g16_all((float)(ky * w->width + kx)));
      g16_store_some(at, g16_choose(here, g16_add(old, dy), old), count);
    }
}
