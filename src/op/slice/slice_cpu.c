/* slice and its gradient: pixel by pixel, a run of channels at a time. */
#include <string.h>

#include "kernel/cpu/cpu_fill.h"

static void slice(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t p = 0; p < pixels_of(g); p++)
      memcpy(out_row(call, 0, n) + p * g->co, in_row(call, 0, n) + p * g->ci + g->slice.start,
             (size_t)g->co * sizeof(float));
}

static void slice_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    memset(out_row(call, 0, n), 0, (size_t)elems_of(g) * sizeof(float));
    for (int64_t p = 0; p < pixels_of(g); p++)
      memcpy(out_row(call, 0, n) + p * g->ci + g->slice.start, in_row(call, 0, n) + p * g->co,
             (size_t)g->co * sizeof(float));
  }
}

void HD_SYM(slice_fill)(hd_kernels *table) {
  table->run[HD_OP_slice] = slice;
  table->run[HD_OP_slice_dx] = slice_dx;
}
