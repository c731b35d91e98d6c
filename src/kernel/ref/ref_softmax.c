/* Reference softmax over the channels of each pixel, and its gradient. Every sum is 16 interleaved chains over the
 * channel index (chain k takes c = k mod 16, from +0), then the fixed tree. */
#include "kernel/ref/ref_softmax.h"

static void softmax_of(const real *x, real *y, int channels) {
  real m = largest(x, channels), sum = sum_of_exp(x, channels, m);
  for (int c = 0; c < channels; c++)
    y[c] = REAL_EXP(x[c] - m) / sum;
}

/* m = the maximum by takes_over; e = exp(x - m); y = e / the sum of e. */
static void softmax(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t p = 0; p < (int64_t)g->hi * g->wi; p++)
      softmax_of((const real *)call->in[0] + n * call->in_stride[0] + p * g->ci,
                 (real *)call->out[0] + n * call->out_stride[0] + p * g->ci, g->ci);
}

/* dx = y * (dy - the sum of fma(dy, y)). */
static void softmax_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t p = 0; p < (int64_t)g->hi * g->wi; p++) {
      const real *dy = (const real *)call->in[0] + n * call->in_stride[0] + p * g->ci;
      const real *y = (const real *)call->in[1] + n * call->in_stride[1] + p * g->ci;
      real *dx = (real *)call->out[0] + n * call->out_stride[0] + p * g->ci, chain[16] = {0};
      for (int c = 0; c < g->ci; c++)
        chain[c % 16] = REAL_FMA(dy[c], y[c], chain[c % 16]);
      real dot = tree16(chain);
      for (int c = 0; c < g->ci; c++)
        dx[c] = y[c] * (dy[c] - dot);
    }
}

void REF(softmax_fill)(hd_kernels *table) {
  table->run[HD_OP_softmax] = softmax;
  table->run[HD_OP_softmax_dx] = softmax_dx;
}
