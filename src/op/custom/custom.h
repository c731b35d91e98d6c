/* custom: an operation of the caller's program, called for each sample. On the CPU in float alone. */
#pragma once

#include "kernel/unit.h"

#if defined(HD_OP_CUDA) || defined(HD_REF_DOUBLE)

HD_BOTH int64_t custom_count(const hd_geom *g) { return 0; }
HD_BOTH void custom_at(const op_call *c, int64_t n, int64_t unused) {}
HD_BOTH int64_t custom_dx_count(const hd_geom *g) { return 0; }
HD_BOTH void custom_dx_at(const op_call *c, int64_t n, int64_t unused) {}

#else

#include "heddle/custom_op.h"

/* Input k of sample n, or its output; NULL where absent. */
HD_BOTH const float *custom_in(const op_call *c, int k, int64_t n) { return c->in[k] ? op_in(c, k, n) : NULL; }
HD_BOTH float *custom_out(const op_call *c, int k, int64_t n) { return c->out[k] ? op_out(c, k, n) : NULL; }

HD_BOTH hd_custom_call custom_call(const hd_geom *g) {
  return (hd_custom_call){.x_shape = {g->ci, g->hi, g->wi},
                          .y_shape = {g->co, g->hp, g->wp},
                          .x_elems = op_elems(g),
                          .y_elems = (int64_t)g->co * g->hp * g->wp,
                          .user = g->custom.op->user};
}

/* y: what the caller's function computes */
HD_BOTH int64_t custom_count(const hd_geom *g) { return 1; }
HD_BOTH void custom_at(const op_call *c, int64_t n, int64_t unused) {
  hd_custom_call call = custom_call(op_geom(c));
  for (int i = 0; i < HD_CUSTOM_OP_INPUTS; i++)
    call.x[i] = custom_in(c, i, n);
  call.y = custom_out(c, 0, n);
  op_geom(c)->custom.op->forward(&call);
}

/* dx: what the caller's function computes */
HD_BOTH int64_t custom_dx_count(const hd_geom *g) { return 1; }
HD_BOTH void custom_dx_at(const op_call *c, int64_t n, int64_t unused) {
  hd_custom_call call = custom_call(op_geom(c));
  call.dy = custom_in(c, 0, n);
  call.y = (float *)custom_in(c, 1, n); /* backward only reads it, see the public header */
  for (int i = 0; i < HD_CUSTOM_OP_INPUTS; i++) {
    call.x[i] = custom_in(c, 2 + i, n);
    call.dx[i] = custom_out(c, i, n);
  }
  op_geom(c)->custom.op->backward(&call);
}

#endif
