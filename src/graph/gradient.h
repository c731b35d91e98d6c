/* Building gradients: the nodes of the backward pass of a layer, from the rule of its operation. A pass
 * (plan/pass_gradients.c) walks the layers backwards. */
#pragma once

#include "graph/graph.h"

/* The state of the walk. */
typedef struct hd_grad {
  hd_graph *graph;
  hd_ctx *ctx;
  int *gradient; /* per value of the forward graph: the value with d loss / d value, -1 for none */
  bool *wanted;  /* likewise: whether it wants a gradient */
} hd_grad;

/* Adds the nodes of one layer, whose output has a gradient already, and sets the gradients of its inputs that want one;
 * further gradients of a value are added to it. `node` is not in the graph's array, which grows. */
hd_status hd__grad_add(hd_grad *grad, const hd_node *node);
