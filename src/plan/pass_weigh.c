/* The pass for samples with weights: the loss of a sample, and the gradient of that loss, are multiplied by its weight,
 * which follows its target. The divisor of the mean (train/records/loss_score.h) is the sum of these weights. */
#include "plan/passes.h"

/* The gradient of the loss; -1: nothing needs it. */
static int find_gradient(const hd_graph *graph, int loss) {
  const hd_op op = hd__op_info(graph->nodes[loss].op)->rule->dx.op;
  int found = loss + 1;
  while (found < graph->node_count && graph->nodes[found].op != op)
    found++;
  return found < graph->node_count ? found : -1;
}

/* Inserts a node after `index` that weighs its first output; *out is the new value. */
static hd_status weigh(int *out, hd_graph *graph, hd_ctx *ctx, int index, const hd_shape *shape, int at) {
  const int from = graph->nodes[index].out[0];
  hd_node *node;
  HD_TRY(hd__graph_insert_node(&node, graph, ctx, index + 1, HD_OP_weigh, &graph->nodes[index]));
  node->geom = hd__geom_of_shape(&graph->values[from].shape);
  node->geom.weigh.at = at;
  node->in[0] = from;
  node->in[1] = graph->label;
  HD_TRY(hd__graph_output(graph, ctx, node, 0, "weighed", &(hd_value_type){HD_VALUE_ROWS, HD_F32, *shape}));
  *out = node->out[0];
  graph->values[*out].producer = index + 1;
  return HD_OK;
}

static void replace_reads(hd_graph *graph, int first, int value, int by) {
  for (int i = first; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++)
      if (graph->nodes[i].in[k] == value)
        graph->nodes[i].in[k] = by;
}

hd_status hd__pass_weigh(hd_graph *graph, hd_ctx *ctx) {
  const int loss = graph->values[graph->loss].producer, gradient = find_gradient(graph, loss);
  const int at = (int)hd__shape_elems(&graph->values[graph->label].shape) - 1;
  if (gradient >= 0) {
    const int dx = graph->nodes[gradient].out[0];
    const hd_shape shape = graph->values[dx].shape;
    int weighed;
    HD_TRY(weigh(&weighed, graph, ctx, gradient, &shape, at));
    replace_reads(graph, gradient + 2, dx, weighed);
  }
  graph->values[graph->loss].shape = (hd_shape){1, {1}}; /* it lies beside other values now */
  return weigh(&graph->loss, graph, ctx, loss, &(hd_shape){.rank = 0}, at);
}
