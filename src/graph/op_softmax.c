/* softmax: over a flat value, or over the channels of each pixel of an image; and its gradient, which reads the output.
 *
 * A classifier does not need it at the end: cross_entropy reads logits and includes a softmax. */
#include "graph/gradient.h"

hd_status hd__op_softmax_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return hd__op_output_like_input(graph, ctx, node);
}

hd_status hd__op_softmax_grad(hd_grad *grad, const hd_node *node) {
  hd_node *dx;
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_softmax_dx, node, (int[]){hd__grad_of(grad, node->out[0]), node->out[0]}, 2));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_softmax_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_shape shape = graph->values[node->in[1]].shape;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &shape);
}

hd_status hd__op_softmax_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }

int64_t hd__op_softmax_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_softmax_dx_cost(const hd_geom *g) { return hd__op_softmax_cost(g); }

/* Per element: maximum, difference, exponential, sum, division; in the gradient a multiply-add, difference, product. */
int64_t hd__op_softmax_flops(const hd_geom *g) { return (int64_t)5 * g->ci * g->hi * g->wi; }
int64_t hd__op_softmax_dx_flops(const hd_geom *g) { return (int64_t)4 * g->ci * g->hi * g->wi; }

int hd__op_softmax_sample(hd_geom *g, int index) {
  static const hd_shape list[] = {{1, {1}}, {1, {16}}, {1, {45}}, {3, {3, 4, 5}}, {3, {17, 3, 3}}, {3, {1, 2, 7}}};
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = hd__geom_of_shape(&list[index]);
  return 1;
}

int hd__op_softmax_dx_sample(hd_geom *g, int index) { return hd__op_softmax_sample(g, index); }
