/* max_pool2d with channels in vector lanes. The gradient: over windows row-major, where the maximum was taken. */
#include <string.h>
#include "op/window_cpu.h"

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
        const most16 most = window16_most(g, &w, x + c, g->ci - c);
        g16_store_some(y + at, most.value, g->ci - c);
        if (argmax)
          g16_to_bytes(argmax + at, most.number, g->ci - c);
      }
    }
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
        window16_give(g, &w, g16_load_some(dy + at, g->ci - c), g16_from_bytes(argmax + at, g->ci - c), dx + c,
                      g->ci - c);
      }
    }
  }
}

void HD_SYM(max_pool2d_fill)(hd_kernels *table) {
  table->run[HD_OP_max_pool2d] = max_pool2d;
  table->run[HD_OP_max_pool2d_dx] = max_pool2d_dx;
}
