/* adaptive_avg_pool2d by groups of sixteen channels. */
#include <string.h>

#include "op/adaptive_avg_pool2d/adaptive_avg_pool2d.h"
#include "op/adaptive_cpu.h"

static void adaptive_avg_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int i = 0; i < g->ho * g->wo; i++) {
      const window16 w = adaptive16_window(g, i / g->wo, i % g->wo);
      const g16 divisor = g16_all(adaptive_avg_pool2d_size(g, i / g->wo, i % g->wo));
      float *y = out_row(call, 0, n) + (int64_t)i * g->ci;
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(y + c, window16_mean(g, &w, divisor, in_row(call, 0, n) + c, g->ci - c), g->ci - c);
    }
}

static void adaptive_avg_pool2d_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    float *dx = out_row(call, 0, n);
    memset(dx, 0, (size_t)elems_of(g) * sizeof *dx);
    for (int i = 0; i < g->ho * g->wo; i++) {
      const window16 w = adaptive16_window(g, i / g->wo, i % g->wo);
      const g16 divisor = g16_all(adaptive_avg_pool2d_size(g, i / g->wo, i % g->wo));
      const float *dy = in_row(call, 0, n) + (int64_t)i * g->ci;
      for (int c = 0; c < g->ci; c += 16)
        window16_share(g, &w, g16_div(g16_load_some(dy + c, g->ci - c), divisor), dx + c, g->ci - c);
    }
  }
}

void HD_SYM(adaptive_avg_pool2d_fill)(hd_kernels *table) {
  table->run[HD_OP_adaptive_avg_pool2d] = adaptive_avg_pool2d;
  table->run[HD_OP_adaptive_avg_pool2d_dx] = adaptive_avg_pool2d_dx;
}
