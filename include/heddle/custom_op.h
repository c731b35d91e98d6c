/* Custom operations: written in C, named in models like the built-in ones.
 *
 *     static void forward(const hd_custom_call *c) {
 *       for (int64_t i = 0; i < c->y_elems; i++)
 *         c->y[i] = c->x[0][i] > 0 ? c->x[0][i] * c->x[0][i] : 0;
 *     }
 *     static const hd_custom_op squared_relu = {
 *       .struct_bytes = sizeof squared_relu, .name = "squared_relu", .inputs = 1, .forward = forward, ...};
 *     hd_custom_op_add(ctx, &squared_relu);
 *     hd_model_add(model, ctx, "act1", "op: squared_relu");
 *
 * An operation reads one or two values of earlier layers and computes one. It processes one sample at a time, in
 * float, and has no parameters: put a linear layer or a convolution in front of it. Its result for a sample must
 * depend on that sample alone; then the layout does not change a bit of it either. For equal bits on every machine
 * use +, -, *, /, sqrt and fma, compiled with -ffp-contract=off.
 *
 * A value is an image, or a flat one with height and width 1. Channels vary fastest in memory: element (c, y, x) of
 * an image stands at (y * width + x) * channels + c.
 *
 * Ownership: the struct is copied; what it points to must outlive the context, and the context must outlive everything
 * made with it. Thread safety: `forward` and `backward` are called by several threads at once, each for different
 * samples; they must not fail, block, or write anything but the call's outputs. */
#ifndef HEDDLE_CUSTOM_OP_H
#define HEDDLE_CUSTOM_OP_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_CUSTOM_OP_INPUTS = 2, HD_CUSTOM_OPS = 32 /* of one context */ };

typedef struct hd_custom_shape {
  int32_t channels, height, width;
} hd_custom_shape;

/* One sample. */
typedef struct hd_custom_call {
  hd_custom_shape x_shape; /* of each input */
  hd_custom_shape y_shape;
  int64_t x_elems, y_elems;
  const float *x[HD_CUSTOM_OP_INPUTS]; /* x_elems each */
  float *y;                            /* forward: to be filled, y_elems; backward: what forward made */
  const float *dy;                     /* backward: the loss's derivative by y, y_elems */
  float *dx[HD_CUSTOM_OP_INPUTS];      /* backward: to be filled, the loss's derivative by x; NULL if not needed */
  void *user;                          /* the operation's */
} hd_custom_call;

typedef struct hd_custom_op {
  size_t struct_bytes; /* sizeof(hd_custom_op) */
  const char *name;    /* its name in models: 1 to 32 letters, digits and '_', not a built-in one */
  int32_t inputs;      /* 1 or 2, of one shape */
  /* The output's shape; NULL: the inputs'. Returns 0, or anything else if inputs of that shape do not fit. */
  int (*shape)(hd_custom_shape *y, const hd_custom_shape *x, void *user);
  void (*forward)(const hd_custom_call *call);
  void (*backward)(const hd_custom_call *call);
  int64_t flops; /* floating-point operations for one element of the output, for summaries; 0 if unknown */
  void *user;    /* passed on; what it points to must not change while a session exists */
} hd_custom_op;

/* Registers the operation for models that are read with this context, including those of checkpoints. HD_E_USAGE: a
 * name that is taken or unfit, a missing function, more than HD_CUSTOM_OPS. */
HD_API hd_status hd_custom_op_add(hd_ctx *ctx, const hd_custom_op *op);

#ifdef __cplusplus
}
#endif
#endif
