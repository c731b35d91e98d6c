/* cross_entropy: -log softmax(logits)[label], one value per sample; and its gradient (softmax - onehot) / divisor.
 *
 * The mean over the batch is taken outside: the divisor comes from the whole batch, the sum of losses is folded in
 * order. */
#include "graph/op.h"

hd_status hd__op_cross_entropy_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_value *x = &graph->values[node->in[0]];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->shape.rank != 1)
    return hd__fail(ctx, HD_E_SHAPE,
                    "the last layer: cross-entropy expects one flat score per class, found %s; end the model with "
                    "flatten and linear",
                    hd__shape_text(text, sizeof text, &x->shape));
  int32_t classes = x->shape.dim[0];
  node->geom = (hd_geom){.ci = classes,
                         .hi = 1,
                         .wi = 1,
                         .co = classes,
                         .ho = 1,
                         .wo = 1,
                         .kh = 1,
                         .kw = 1,
                         .sh = 1,
                         .sw = 1,
                         .pool = 1,
                         .hp = 1,
                         .wp = 1};
  return hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &(hd_shape){.rank = 0});
}

hd_status hd__op_cross_entropy_grad(hd_grad *grad, const hd_node *node) {
  hd_node *dx;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_cross_entropy_dx, node, (int[]){node->in[0], node->in[1]}, 2));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_cross_entropy_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &(hd_shape){1, {node->geom.ci}});
}

int hd__op_cross_entropy_sample(hd_geom *g, int index) {
  static const int32_t classes[] = {1, 2, 10, 16, 17, 40};
  if (index >= (int)(sizeof classes / sizeof *classes))
    return 0;
  *g = (hd_geom){.ci = classes[index],
                 .hi = 1,
                 .wi = 1,
                 .co = classes[index],
                 .ho = 1,
                 .wo = 1,
                 .kh = 1,
                 .kw = 1,
                 .sh = 1,
                 .sw = 1,
                 .pool = 1,
                 .hp = 1,
                 .wp = 1};
  return 1;
}

int64_t hd__op_cross_entropy_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

hd_status hd__op_cross_entropy_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
int64_t hd__op_cross_entropy_dx_cost(const hd_geom *g) { return hd__op_cross_entropy_cost(g); }
int hd__op_cross_entropy_dx_sample(hd_geom *g, int index) { return hd__op_cross_entropy_sample(g, index); }

/* A class: maximum, difference, exponential, sum; the gradient divides twice more and takes the label off. */
int64_t hd__op_cross_entropy_flops(const hd_geom *g) { return 4 * (int64_t)g->ci; }
int64_t hd__op_cross_entropy_dx_flops(const hd_geom *g) { return 7 * (int64_t)g->ci; }
