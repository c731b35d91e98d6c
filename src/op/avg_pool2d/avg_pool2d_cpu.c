/* avg_pool2d and global_avg_pool2d with channels in vector lanes; padding adds nothing to a mean. */
#include <string.h>
#include "op/avg_pool2d/avg_pool2d.h"
#include "op/window_cpu.h"

G16 g16 mean_group(const hd_geom *g, const window16 *w, g16 divisor, const float *x, int count) {
  g16 sum = g16_zero();
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++)
      sum = g16_add(sum, g16_load_some(x + ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci, count));
  return g16_div(sum, divisor);
}

static void avg_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    for (int i = 0; i < g->ho * g->wo; i++) {
      window16 w = window16_at(g, i / g->wo, i % g->wo);
      const g16 divisor = g16_all(avg_pool2d_divisor(g, i / g->wo, i % g->wo));
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(y + (int64_t)i * g->ci + c, mean_group(g, &w, divisor, x + c, g->ci - c), g->ci - c);
    }
  }
}

/* Adds one window's part of the gradient to each of its pixels. */
G16 void share_group(const hd_geom *g, const window16 *w, g16 share, float *dx, int count) {
  for (int ky = w->y0; ky < w->y1; ky++)
    for (int kx = w->x0; kx < w->x1; kx++) {
      float *at = dx + ((int64_t)(w->top + ky) * g->wi + w->left + kx) * g->ci;
      g16_store_some(at, g16_add(g16_load_some(at, count), share), count);
    }
}

static void avg_pool2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n);
    float *dx = out_row(call, 0, n);
    memset(dx, 0, (size_t)g->hi * (size_t)g->wi * (size_t)g->ci * sizeof *dx);
    for (int i = 0; i < g->ho * g->wo; i++) {
      window16 w = window16_at(g, i / g->wo, i % g->wo);
      const g16 divisor = g16_all(avg_pool2d_divisor(g, i / g->wo, i % g->wo));
      for (int c = 0; c < g->ci; c += 16) {
        g16 d = g16_load_some(dy + (int64_t)i * g->ci + c, g->ci - c);
        share_group(g, &w, g16_div(d, divisor), dx + c, g->ci - c);
      }
    }
  }
}

void HD_SYM(avg_pool2d_fill)(hd_kernels *table) {
  table->run[HD_OP_avg_pool2d] = avg_pool2d;
  table->run[HD_OP_avg_pool2d_dx] = avg_pool2d_dx;
  table->run[HD_OP_global_avg_pool2d] = avg_pool2d;
}
