/* dropout: in training each element is zero with probability p, the others are divided by 1 - p; and its gradient,
 * which draws the same mask again. In evaluation it is the identity: hd__pass_evaluation makes it a view. */
#include "graph/gradient.h"

hd_status hd__op_dropout_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  HD_TRY(hd__op_output_like_input(graph, ctx, node));
  node->geom.p = node->attrs.p;
  return HD_OK;
}

hd_status hd__op_dropout_grad(hd_grad *grad, const hd_node *node) {
  hd_node *dx;
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_dropout_dx, node, (int[]){hd__grad_of(grad, node->out[0])}, 1));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_dropout_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_shape shape = graph->values[node->in[0]].shape;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &shape);
}

hd_status hd__op_dropout_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }

int64_t hd__op_dropout_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_dropout_dx_cost(const hd_geom *g) { return hd__op_dropout_cost(g); }

int64_t hd__op_dropout_flops(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }
int64_t hd__op_dropout_dx_flops(const hd_geom *g) { return hd__op_dropout_flops(g); }

int hd__op_dropout_sample(hd_geom *g, int index) {
  static const float p[] = {0.5f, 0, 0.1f, 0.9f, 1};
  if (!hd__op_sample_elementwise(g, index))
    return 0;
  g->p = p[index % 5];
  return 1;
}

int hd__op_dropout_dx_sample(hd_geom *g, int index) { return hd__op_dropout_sample(g, index); }
