/* max_pool2d with channels in vector lanes. The gradient: over windows row-major, where the maximum was taken. */
#include <string.h>
#include "op/window_cpu.h"

/* One group of channels of one window; x: the group's channel of the image's first pixel. */
G16 void forward_group(const hd_geom *g, const window16 *w, const float *x, float *y, uint8_t *argmax, int count) {
  g16 best = g16_zero(), taken = g16_zero();
  int first = 1;
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      g16 v = g16_load_some(x + ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci, count);
      g16 number = g16_all((float)(ky * g->window.kw + kx));
      g16_mask over = g16_or(g16_less(best, v), g16_nan(v));
      best = first ? v : g16_choose(over, v, best);
      taken = first ? number : g16_choose(over, number, taken);
      first = 0;
    }
  g16_store_some(y, best, count);
  if (argmax)
    g16_to_bytes(argmax, taken, count);
}

static void max_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    uint8_t *argmax = call->out[1] ? (uint8_t *)call->out[1] + n * call->out_stride[1] : NULL;
    for (int i = 0; i < g->ho * g->wo; i++) {
      window16 w = window16_at(g, i / g->wo, i % g->wo);
      for (int c = 0; c < g->ci; c += 16) {
        int64_t at = (int64_t)i * g->ci + c;
        forward_group(g, &w, x + c, y + at, argmax ? argmax + at : NULL, g->ci - c);
      }
    }
  }
}

/* Adds one window's group where its maxima were. */
G16 void backward_group(const hd_geom *g, const window16 *w, const float *dy, const uint8_t *argmax, float *dx,
                        int count) {
  g16 d = g16_load_some(dy, count), taken = g16_from_bytes(argmax, count);
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      float *at = dx + ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci;
      g16 old = g16_load_some(at, count);
      g16_mask here = g16_equal(taken, g16_all((float)(ky * g->window.kw + kx)));
      g16_store_some(at, g16_choose(here, g16_add(old, d), old), count);
    }
}

static void max_pool2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n);
    const uint8_t *argmax = (const uint8_t *)call->in[1] + n * call->in_stride[1];
    float *dx = out_row(call, 0, n);
    memset(dx, 0, (size_t)g->hi * (size_t)g->wi * (size_t)g->ci * sizeof *dx);
    for (int i = 0; i < g->ho * g->wo; i++) {
      window16 w = window16_at(g, i / g->wo, i % g->wo);
      for (int c = 0; c < g->ci; c += 16) {
        int64_t at = (int64_t)i * g->ci + c;
        backward_group(g, &w, dy + at, argmax + at, dx + c, g->ci - c);
      }
    }
  }
}

void HD_SYM(max_pool2d_fill)(hd_kernels *table) {
  table->run[HD_OP_max_pool2d] = max_pool2d;
  table->run[HD_OP_max_pool2d_dx] = max_pool2d_dx;
}
