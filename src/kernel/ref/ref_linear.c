/* Reference linear layer and its gradients. */
#include "kernel/ref/ref_real.h"

/* 16 interleaved chains over k (chain c takes k = c mod 16, from +0, ascending, FMA), the fixed tree, then + bias. */
static real output(const hd_geom *g, const real *x, const real *w, const real *b, int j) {
  real chain[16] = {0};
  for (int k = 0; k < g->ci; k++)
    chain[k % 16] = REAL_FMA(x[k], w[(int64_t)j * g->ci + k], chain[k % 16]);
  real y = tree16(chain);
  if (b)
    y = y + b[j];
  return g->relu && y < 0 ? 0 : y;
}

static void linear_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int j = j0; j < j1; j++)
      ((real *)call->out[0])[n * call->out_stride[0] + j] =
          output(call->g, (const real *)call->in[0] + n * call->in_stride[0], call->in[1], call->in[2], j);
}

static void linear(const hd_call *call) { linear_outputs(call, 0, call->g->co); }

/* acc = +0; j ascending: acc = fma(dy[j], w[j][k], acc). */
static void linear_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  const real *w = call->in[1];
  for (int64_t n = 0; n < call->rows; n++) {
    const real *dy = (const real *)call->in[0] + n * call->in_stride[0];
    real *dx = (real *)call->out[0] + n * call->out_stride[0];
    for (int k = 0; k < g->ci; k++) {
      real acc = 0;
      for (int j = 0; j < g->co; j++)
        acc = REAL_FMA(dy[j], w[(int64_t)j * g->ci + k], acc);
      dx[k] = acc;
    }
  }
}

/* Weight: acc = +0; samples ascending: acc = fma(dy[j], x[k], acc). Bias: acc = +0; acc = acc + dy[j]. */
static void linear_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  const real *x = call->in[0], *dy = call->in[1];
  real *dw = call->out[0], *db = call->out[1];
  for (int j = 0; j < g->co; j++) {
    for (int k = 0; dw && k < g->ci; k++) {
      real acc = 0;
      for (int64_t n = 0; n < call->rows; n++)
        acc = REAL_FMA(dy[n * call->in_stride[1] + j], x[n * call->in_stride[0] + k], acc);
      dw[(int64_t)j * g->ci + k] = acc;
    }
    real acc = 0;
    for (int64_t n = 0; n < call->rows; n++)
      acc = acc + dy[n * call->in_stride[1] + j];
    if (db)
      db[j] = acc;
  }
}

void REF(linear_fill)(hd_kernels *table) {
  table->run[HD_OP_linear] = linear;
  table->run_outputs[HD_OP_linear] = linear_outputs;
  table->run[HD_OP_linear_dx] = linear_dx;
  table->run[HD_OP_linear_dw] = linear_dw;
}
