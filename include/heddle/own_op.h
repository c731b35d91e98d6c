/* Operations of one's own: written in C, named in models beside the built-in ones.
 *
 *     static void forward(const hd_own_call *c) {
 *       for (int64_t i = 0; i < c->y_elems; i++)
 *         c->y[i] = c->x[0][i] > 0 ? c->x[0][i] * c->x[0][i] : 0;
 *     }
 *     static const hd_own_op squared_relu = {.name = "squared_relu", .inputs = 1, .forward = forward, ...};
 *     hd_own_op_add(ctx, &squared_relu);
 *     hd_model_add(model, ctx, "act1", "op: squared_relu");
 *
 * An operation reads one or two values of the layers above and makes one. It sees one sample at a time, in float, and
 * has no parameters: put a linear layer or a convolution in front of it. What it computes for a sample must follow
 * from that sample alone; then the promise holds for it too, that no layout changes a bit. For equal bits on every
 * machine use +, -, *, /, sqrt and fma, compiled with -ffp-contract=off.
 *
 * A value is an image, or a flat one with height and width 1. In memory channels are fastest: element (c, y, x) of an
 * image stands at (y * width + x) * channels + c.
 *
 * Ownership: a context keeps the pointer; the operation, static as a rule, must outlive the context and whatever was
 * made with it. Thread safety: `forward` and `backward` are called by several threads at once, each for other samples;
 * they must not fail, wait, or write anything but what the call names. */
#ifndef HEDDLE_OWN_OP_H
#define HEDDLE_OWN_OP_H

#include <stdint.h>

#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_OWN_OP_INPUTS = 2, HD_OWN_OPS = 32 /* of one context */ };

typedef struct hd_own_shape {
  int32_t channels, height, width;
} hd_own_shape;

/* One sample. */
typedef struct hd_own_call {
  hd_own_shape x_shape; /* of each input */
  hd_own_shape y_shape;
  int64_t x_elems, y_elems;
  const float *x[HD_OWN_OP_INPUTS]; /* x_elems each */
  float *y;                         /* forward: to be filled, y_elems; backward: what forward made */
  const float *dy;                  /* backward: the loss's derivative by y, y_elems */
  float *dx[HD_OWN_OP_INPUTS];      /* backward: to be filled, the loss's derivative by x; NULL where nobody asks */
  void *user;                       /* the operation's */
} hd_own_call;

typedef struct hd_own_op {
  const char *name; /* what models call it: 1 to 32 letters, digits and '_', no built-in operation's name */
  int32_t inputs;   /* 1 or 2, of one shape */
  /* The output's shape; NULL: the inputs'. Returns 0, or anything else if inputs of that shape do not fit. */
  int (*shape)(hd_own_shape *y, const hd_own_shape *x, void *user);
  void (*forward)(const hd_own_call *call);
  void (*backward)(const hd_own_call *call);
  int64_t flops; /* floating-point operations for one element of the output, for summaries; 0 if that is not known */
  void *user;    /* passed on; what it points to must not change while a session lives */
} hd_own_op;

/* Makes the operation known to models that are read with this context, those of checkpoints too. HD_E_USAGE: a name
 * that is taken or unfit, a missing function, more than HD_OWN_OPS. */
HD_API hd_status hd_own_op_add(hd_ctx *ctx, const hd_own_op *op);

#ifdef __cplusplus
}
#endif
#endif
