/* adaptive_max_pool2d by groups of sixteen channels. The gradient finds each window's maxima once more; over windows
 * row-major, it adds to where they were. */
#include <string.h>

#include "op/adaptive_cpu.h"

static void adaptive_max_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int i = 0; i < g->ho * g->wo; i++) {
      const window16 w = adaptive16_window(g, i / g->wo, i % g->wo);
      float *y = out_row(call, 0, n) + (int64_t)i * g->ci;
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(y + c, window16_most(g, &w, in_row(call, 0, n) + c, g->ci - c).value, g->ci - c);
    }
}

static void adaptive_max_pool2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    float *dx = out_row(call, 0, n);
    memset(dx, 0, (size_t)elems_of(g) * sizeof *dx);
    for (int i = 0; i < g->ho * g->wo; i++) {
      const window16 w = adaptive16_window(g, i / g->wo, i % g->wo);
      const float *dy = in_row(call, 0, n) + (int64_t)i * g->ci;
      for (int c = 0; c < g->ci; c += 16) {
        const most16 most = window16_most(g, &w, in_row(call, 1, n) + c, g->ci - c);
        window16_give(g, &w, g16_load_some(dy + c, g->ci - c), most.number, dx + c, g->ci - c);
      }
    }
  }
}

static int takes(const hd_geom *g) { return pixels_of(g) < WINDOW_PIXELS; }

void HD_SYM(adaptive_max_pool2d_fill)(hd_kernels *table) {
  table->run[HD_OP_adaptive_max_pool2d] = adaptive_max_pool2d;
  table->run[HD_OP_adaptive_max_pool2d_dx] = adaptive_max_pool2d_dx;
  table->supports[HD_OP_adaptive_max_pool2d_dx] = takes;
}
