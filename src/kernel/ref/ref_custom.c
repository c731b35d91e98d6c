/* The kernels of custom operations: call the functions of the caller's program sample by sample, in order. In float
 * alone. */
#include <stddef.h>

#include "heddle/custom_op.h"
#include "kernel/ref/ref_custom.h"

static hd_custom_call call_of(const hd_geom *g) {
  return (hd_custom_call){.x_shape = {g->ci, g->hi, g->wi},
                          .y_shape = {g->co, g->hp, g->wp},
                          .x_elems = (int64_t)g->ci * g->hi * g->wi,
                          .y_elems = (int64_t)g->co * g->hp * g->wp,
                          .user = g->custom_op->user};
}

static float *slot(void *base, int64_t row, int64_t stride) { return base ? (float *)base + row * stride : NULL; }

static const float *input(const hd_call *call, int i, int64_t row) {
  return call->in[i] ? (const float *)call->in[i] + row * call->in_stride[i] : NULL;
}

static void custom(const hd_call *call) {
  hd_custom_call one = call_of(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    for (int i = 0; i < HD_CUSTOM_OP_INPUTS; i++)
      one.x[i] = input(call, i, n);
    one.y = slot(call->out[0], n, call->out_stride[0]);
    call->g->custom_op->forward(&one);
  }
}

static void custom_dx(const hd_call *call) {
  hd_custom_call one = call_of(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    one.dy = input(call, 0, n);
    one.y = (float *)input(call, 1, n); /* backward only reads it, see the public header */
    for (int i = 0; i < HD_CUSTOM_OP_INPUTS; i++) {
      one.x[i] = input(call, 2 + i, n);
      one.dx[i] = slot(call->out[i], n, call->out_stride[i]);
    }
    call->g->custom_op->backward(&one);
  }
}

void hd__ref_custom_fill(hd_kernels *table) {
  table->run[HD_OP_custom] = custom;
  table->run[HD_OP_custom_dx] = custom_dx;
}
