/* The kernels of operations that the caller's program brings: each sample is handed to it, in order. In float alone. */
#include <stddef.h>

#include "heddle/own_op.h"
#include "kernel/ref/ref_own.h"

static hd_own_call call_of(const hd_geom *g) {
  return (hd_own_call){.x_shape = {g->ci, g->hi, g->wi},
                       .y_shape = {g->co, g->hp, g->wp},
                       .x_elems = (int64_t)g->ci * g->hi * g->wi,
                       .y_elems = (int64_t)g->co * g->hp * g->wp,
                       .user = g->own->user};
}

static float *slot(void *base, int64_t row, int64_t stride) { return base ? (float *)base + row * stride : NULL; }

static const float *input(const hd_call *call, int i, int64_t row) {
  return call->in[i] ? (const float *)call->in[i] + row * call->in_stride[i] : NULL;
}

static void own(const hd_call *call) {
  hd_own_call one = call_of(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    for (int i = 0; i < HD_OWN_OP_INPUTS; i++)
      one.x[i] = input(call, i, n);
    one.y = slot(call->out[0], n, call->out_stride[0]);
    call->g->own->forward(&one);
  }
}

static void own_dx(const hd_call *call) {
  hd_own_call one = call_of(call->g);
  for (int64_t n = 0; n < call->rows; n++) {
    one.dy = input(call, 0, n);
    one.y = (float *)input(call, 1, n); /* whose memory it is says the header: backward only reads it */
    for (int i = 0; i < HD_OWN_OP_INPUTS; i++) {
      one.x[i] = input(call, 2 + i, n);
      one.dx[i] = slot(call->out[i], n, call->out_stride[i]);
    }
    call->g->own->backward(&one);
  }
}

void hd__ref_own_fill(hd_kernels *table) {
  table->run[HD_OP_own] = own;
  table->run[HD_OP_own_dx] = own_dx;
}
