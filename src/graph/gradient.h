/* Building gradients: what a gradient rule (op_NAME.c) calls while a pass walks the nodes backwards, and what that pass
 * (plan/pass_gradients.c) prepares. */
#ifndef HD_GRAPH_GRADIENT_H
#define HD_GRAPH_GRADIENT_H

#include "graph/op.h"

struct hd_grad {
  hd_graph *graph;
  hd_ctx *ctx;
  const hd_op_info *(*info)(hd_op op); /* hd__op_info, which depends on the rules */
  int *gradient;                       /* per value of the forward graph, -1 for none */
  bool *wanted;                        /* likewise */
};

/* The value with d loss / d value, -1 if there is none; whether a value's gradient is wanted. */
int hd__grad_of(const hd_grad *grad, int value);
bool hd__grad_wants(const hd_grad *grad, int value);

/* Sets a gradient of `value`; further ones are added to it. */
hd_status hd__grad_give(hd_grad *grad, int value, int gradient);

/* Adds a node of the backward pass for `of`: its name, number and geometry, and the inputs in[0 .. count-1] (-1 for an
 * absent one). The operation's shape rule makes the outputs. */
hd_status hd__grad_node(hd_node **out, hd_grad *grad, hd_op op, const hd_node *of, const int *in, int count);

/* Notes that `gradient` is the gradient of the parameter `value`. */
void hd__grad_note_param(hd_grad *grad, int value, int gradient);

/* The rule of an operation without a gradient, so that "not differentiable" is always explicit. */
hd_grad_fn hd__grad_none;

#endif
