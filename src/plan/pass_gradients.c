/* The pass that appends gradients: walks the nodes backwards and lets each operation's rule emit its backward nodes.
 *
 * If a value is read several times, its gradients are added in the order of the walk, which is reverse node order.
 * Gradients without a use (of the samples, of frozen parameters, of values that depend on no trained parameter) are not
 * computed. */
#include <string.h>

#include "base/alloc.h"
#include "graph/gradient.h"
#include "plan/passes.h"

/* Parameters, and values that depend on one, need a gradient. */
static void mark_wanted(hd_grad *grad) {
  const hd_graph *graph = grad->graph;
  for (int i = 0; i < graph->value_count; i++)
    grad->wanted[i] =
        graph->values[i].kind == HD_VALUE_PARAM && hd__param_trains(&graph->params[graph->values[i].param]);
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    bool wanted = false;
    for (int k = 0; k < HD_MAX_IN; k++)
      wanted |= node->in[k] >= 0 && grad->wanted[node->in[k]];
    grad->wanted[node->out[0]] = wanted;
  }
}

static hd_status walk_back(hd_grad *grad) {
  for (int i = grad->graph->node_count - 1; i >= 0; i--) {
    hd_node node = grad->graph->nodes[i]; /* a copy: rules append nodes */
    int y = node.out[0];
    if (y != grad->graph->loss && (!grad->wanted[y] || grad->gradient[y] < 0))
      continue;
    HD_TRY(hd__grad_add(grad, &node));
  }
  return HD_OK;
}

/* A gradient of a frozen parameter without readers; batch norm's dx reads some. */
static bool is_idle(const hd_graph *graph, int value) {
  return value >= 0 && graph->values[value].kind == HD_VALUE_PARAM_GRAD &&
         !hd__param_trains(&graph->params[graph->values[value].param]) && hd__graph_reads(graph, value, NULL) == 0;
}

/* Rules emit the gradients of a layer's weight and bias together: removes those of frozen parameters, and nodes left
 * without outputs. */
static void prune_frozen(hd_graph *graph) {
  for (int i = graph->node_count - 1; i >= 0; i--) {
    bool makes = false;
    for (int k = 0; k < HD_MAX_OUT; k++) {
      int *out = &graph->nodes[i].out[k];
      if (is_idle(graph, *out)) {
        graph->values[*out].producer = -1;
        *out = -1;
      }
      makes |= *out >= 0;
    }
    if (!makes)
      hd__graph_remove_node(graph, i);
  }
}

hd_status hd__pass_grad(hd_graph *graph, hd_ctx *ctx) {
  hd_grad grad = {.graph = graph, .ctx = ctx};
  grad.gradient = hd__malloc((size_t)graph->value_count * sizeof *grad.gradient);
  grad.wanted = hd__malloc((size_t)graph->value_count * sizeof *grad.wanted);
  hd_status status = HD_OK;
  if (!grad.gradient || !grad.wanted) {
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory while building gradients");
    goto out;
  }
  memset(grad.gradient, -1, (size_t)graph->value_count * sizeof *grad.gradient);
  mark_wanted(&grad);
  status = walk_back(&grad);
  if (status == HD_OK)
    prune_frozen(graph);
out:
  hd__free(grad.gradient);
  hd__free(grad.wanted);
  return status;
}
