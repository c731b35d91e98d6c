/* avg_pool2d and global_avg_pool2d with channels in vector lanes; padding adds nothing to a mean. */
#include <string.h>
#include "op/avg_pool2d/avg_pool2d.h"
#include "op/window_cpu.h"

static void avg_pool2d(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 0, n);
    float *y = out_row(call, 0, n);
    for (int i = 0; i < g->ho * g->wo; i++) {
      window16 w = window16_at(g, i / g->wo, i % g->wo);
      const g16 divisor = g16_all(avg_pool2d_divisor(g, i / g->wo, i % g->wo));
      for (int c = 0; c < g->ci; c += 16)
        g16_store_some(y + (int64_t)i * g->ci + c, window16_mean(g, &w, divisor, x + c, g->ci - c), g->ci - c);
    }
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
        window16_share(g, &w, g16_div(d, divisor), dx + c, g->ci - c);
      }
    }
  }
}

void HD_SYM(avg_pool2d_fill)(hd_kernels *table) {
  table->run[HD_OP_avg_pool2d] = avg_pool2d;
  table->run[HD_OP_avg_pool2d_dx] = avg_pool2d_dx;
  table->run[HD_OP_global_avg_pool2d] = avg_pool2d;
}
