/* The common rules of all ELEMENTWISE operations y = f(x) and of their gradients dx from dy and x or y.
 *
 * If the gradient reads the output, the input's memory can be reused. */
#include "graph/gradient.h"

hd_status hd__op_elementwise_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  HD_TRY(hd__op_output_like_input(graph, ctx, node));
  node->geom.negative_slope = node->attrs.negative_slope;
  node->geom.approximate = node->attrs.approximate;
  return HD_OK;
}

hd_status hd__op_elementwise_grad(hd_grad *grad, const hd_node *node) {
  const hd_elementwise *rule = &grad->info(node->op)->elementwise;
  int other = rule->reads == HD_READS_INPUT ? node->in[0] : node->out[0];
  hd_node *dx;
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, rule->gradient, node, (int[]){hd__grad_of(grad, node->out[0]), other}, 2));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_elementwise_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_shape shape = graph->values[node->in[1]].shape;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &shape);
}

int64_t hd__op_elementwise_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

/* Every shape, with two values of every setting. */
int hd__op_elementwise_sample(hd_geom *g, int index) {
  if (!hd__op_sample_elementwise(g, index / 2))
    return 0;
  g->approximate = index % 2;
  g->negative_slope = index % 2 ? 0.01f : 0.3f;
  return 1;
}
