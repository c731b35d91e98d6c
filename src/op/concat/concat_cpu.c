/* Concatenation of channels, and extraction of one input's part: pixel by pixel, a run of channels at a time. */
#include <string.h>

#include "kernel/cpu/cpu_fill.h"

static void concat(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int i = 0, first = 0; i < HD_CONCAT_INPUTS && g->concat.part[i] > 0; first += g->concat.part[i++])
    for (int64_t n = 0; n < call->rows; n++) {
      const float *x = in_row(call, i, n);
      float *y = out_row(call, 0, n) + first;
      for (int64_t p = 0; p < pixels_of(g); p++, x += g->concat.part[i], y += g->co)
        memcpy(y, x, (size_t)g->concat.part[i] * sizeof *y);
    }
}

static void concat_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = in_row(call, 0, n) + g->concat.first;
    float *dx = out_row(call, 0, n);
    for (int64_t p = 0; p < pixels_of(g); p++, dx += g->ci, dy += g->co)
      memcpy(dx, dy, (size_t)g->ci * sizeof *dx);
  }
}

void HD_SYM(concat_fill)(hd_kernels *table) {
  table->run[HD_OP_concat] = concat;
  table->run[HD_OP_concat_dx] = concat_dx;
}
