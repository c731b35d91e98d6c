/* Reference kernels that move or combine elements one by one. */
#include "kernel/ref/ref_real.h"

static int64_t elems(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

/* y = x < 0 ? 0 : x, so a NaN gets through. */
static void relu(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems(call->g); i++) {
      real x = ((const real *)call->in[0])[n * call->in_stride[0] + i];
      ((real *)call->out[0])[n * call->out_stride[0] + i] = x < 0 ? 0 : x;
    }
}

static void relu_dx(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems(call->g); i++) {
      real dy = ((const real *)call->in[0])[n * call->in_stride[0] + i];
      real y = ((const real *)call->in[1])[n * call->in_stride[1] + i];
      ((real *)call->out[0])[n * call->out_stride[0] + i] = y > 0 ? dy : 0;
    }
}

static void add(const hd_call *call) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems(call->g); i++)
      ((real *)call->out[0])[n * call->out_stride[0] + i] = ((const real *)call->in[0])[n * call->in_stride[0] + i] +
                                                            ((const real *)call->in[1])[n * call->in_stride[1] + i];
}

/* Pixel-major (h, w, c) to channel-major (c, h, w), or back. */
static void permute(const hd_call *call, int back) {
  int64_t channels = call->g->ci, pixels = (int64_t)call->g->hi * call->g->wi;
  for (int64_t n = 0; n < call->rows; n++) {
    const real *x = (const real *)call->in[0] + n * call->in_stride[0];
    real *y = (real *)call->out[0] + n * call->out_stride[0];
    for (int64_t c = 0; c < channels; c++)
      for (int64_t p = 0; p < pixels; p++)
        if (back)
          y[p * channels + c] = x[c * pixels + p];
        else
          y[c * pixels + p] = x[p * channels + c];
  }
}

static void flatten(const hd_call *call) { permute(call, 0); }

static void flatten_dx(const hd_call *call) { permute(call, 1); }

void REF(pointwise_fill)(hd_kernels *table) {
  table->run[HD_OP_relu] = relu;
  table->run[HD_OP_relu_dx] = relu_dx;
  table->run[HD_OP_add] = add;
  table->run[HD_OP_flatten] = flatten;
  table->run[HD_OP_flatten_dx] = flatten_dx;
}
