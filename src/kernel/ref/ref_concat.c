/* Reference concatenation of channels, and the part of one input taken out again: elements are moved, not computed. */
#include "kernel/ref/ref_real.h"

/* y[pixel][first + c] = x[pixel][c], or back: x[pixel][c] = y[pixel][first + c]. */
static void concat(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int i = 0, first = 0; i < HD_MAX_IN && g->part[i] > 0; first += g->part[i++])
    for (int64_t n = 0; n < call->rows; n++) {
      const real *x = (const real *)call->in[i] + n * call->in_stride[i];
      real *y = (real *)call->out[0] + n * call->out_stride[0];
      for (int64_t p = 0; p < (int64_t)g->hi * g->wi; p++)
        for (int c = 0; c < g->part[i]; c++)
          y[p * g->co + first + c] = x[p * g->part[i] + c];
    }
}

static void concat_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *dy = (const real *)call->in[0] + n * call->in_stride[0];
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    for (int64_t p = 0; p < (int64_t)g->hi * g->wi; p++)
      for (int c = 0; c < g->ci; c++)
        dx[p * g->ci + c] = dy[p * g->co + g->first + c];
  }
}

void REF(concat_fill)(hd_kernels *table) {
  table->run[HD_OP_concat] = concat;
  table->run[HD_OP_concat_dx] = concat_dx;
}
