/* Concatenation of channels, and the part of one input taken out again: pixel by pixel, a run of channels at a time. */
#include <string.h>

#include "kernel/cpu/cpu_fill.h"

static void concat(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int i = 0, first = 0; i < HD_MAX_IN && g->part[i] > 0; first += g->part[i++])
    for (int64_t n = 0; n < call->rows; n++) {
      const float *x = (const float *)call->in[i] + n * call->in_stride[i];
      float *y = (float *)call->out[0] + n * call->out_stride[0] + first;
      for (int64_t p = 0; p < (int64_t)g->hi * g->wi; p++, x += g->part[i], y += g->co)
        memcpy(y, x, (size_t)g->part[i] * sizeof *y);
    }
}

static void concat_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *dy = (const float *)call->in[0] + n * call->in_stride[0] + g->first;
    float *dx = (float *)call->out[0] + n * call->out_stride[0];
    for (int64_t p = 0; p < (int64_t)g->hi * g->wi; p++, dx += g->ci, dy += g->co)
      memcpy(dx, dy, (size_t)g->ci * sizeof *dx);
  }
}

void HD_SYM(concat_fill)(hd_kernels *table) {
  table->run[HD_OP_concat] = concat;
  table->run[HD_OP_concat_dx] = concat_dx;
}
