/* Reference cross-entropy over softmax, and its gradient.
 *
 * m = the maximum of the logits by takes_over; e_i = exp(l_i - m); sum = 16 interleaved chains of additions over the
 * class index (chain c takes i = c mod 16, from +0), then the fixed tree. */
#include "kernel/ref/ref_real.h"

static real largest(const real *logits, int classes) {
  real m = logits[0];
  for (int i = 1; i < classes; i++)
    if (takes_over(logits[i], m))
      m = logits[i];
  return m;
}

static real sum_of_exp(const real *logits, int classes, real m) {
  real chain[16] = {0};
  for (int i = 0; i < classes; i++)
    chain[i % 16] = chain[i % 16] + REAL_EXP(logits[i] - m);
  return tree16(chain);
}

/* loss = log(sum) - (l_y - m). */
static void cross_entropy(const hd_call *call) {
  int classes = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *logits = (const real *)call->in[0] + n * call->in_stride[0];
    int32_t label = ((const int32_t *)call->in[1])[n * call->in_stride[1]];
    real m = largest(logits, classes);
    ((real *)call->out[0])[n * call->out_stride[0]] = REAL_LOG(sum_of_exp(logits, classes, m)) - (logits[label] - m);
  }
}

/* dlogits = (e_i / sum - (i == y ? 1 : 0)) / divisor. */
static void cross_entropy_dx(const hd_call *call) {
  int classes = call->g->ci;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *logits = (const real *)call->in[0] + n * call->in_stride[0];
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    int32_t label = ((const int32_t *)call->in[1])[n * call->in_stride[1]];
    real m = largest(logits, classes), sum = sum_of_exp(logits, classes, m);
    for (int i = 0; i < classes; i++)
      dx[i] = (REAL_EXP(logits[i] - m) / sum - (i == label ? 1 : 0)) / (real)call->divisor;
  }
}

void REF(loss_fill)(hd_kernels *table) {
  table->run[HD_OP_cross_entropy] = cross_entropy;
  table->run[HD_OP_cross_entropy_dx] = cross_entropy_dx;
}
