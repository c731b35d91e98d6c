/* Building gradients: the nodes of the backward pass of a layer, from the rule of its operation. A pass
 * (plan/pass_gradients.c) walks the layers backwards. */
#pragma once

#include "graph/graph.h"

/* The state of the walk. */
typedef struct hd_grad {
  hd_graph *graph;
  hd_ctx *ctx;
  int *gradient; /* per value of the forward graph: the value with d loss / d value, -1 for none */
  bool *wanted;  /* likewise: whether it needs a gradient */
} hd_grad;

/* Adds the gradient nodes of a layer whose output already has a gradient, and sets the gradients of its inputs that
 * need one; further gradients of a value are added to it. `node` is a copy: the graph's array may move. */
hd_status hd__grad_add(hd_grad *grad, const hd_node *node);
