/* The losses: one value per sample from scores and target, and their gradients.
 *
 *   cross_entropy     scores of classes, a label; class weights, an ignored label, label smoothing
 *   mse, l1, huber    outputs, as many target numbers
 *   bce_with_logits   scores, as many targets from 0 to 1; weights of positive examples
 *
 * The caller computes the mean over the batch: its divisor depends on the whole batch's targets
 * (train/session/loss_score.h), and losses are added in order. in[2] is a constant of the graph, -1 if absent. */
#include "graph/gradient.h"

static hd_status infer_loss(hd_graph *graph, hd_ctx *ctx, hd_node *node, const char *op) {
  const hd_value *x = &graph->values[node->in[0]];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->shape.rank != 1)
    return hd__fail(ctx, HD_E_SHAPE,
                    "the last layer: %s expects one flat score per class or output, found %s; end the model with "
                    "flatten and linear",
                    op, hd__shape_text(text, sizeof text, &x->shape));
  node->geom = hd__geom_of_shape(&x->shape);
  node->geom.ignore_index = node->attrs.ignore_index;
  node->geom.label_smoothing = node->attrs.label_smoothing;
  node->geom.delta = node->attrs.delta;
  return hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &(hd_shape){.rank = 0});
}

static hd_status emit_gradient(hd_grad *grad, const hd_node *node, hd_op op) {
  hd_node *dx;
  HD_TRY(hd__grad_node(&dx, grad, op, node, node->in, 3));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

static hd_status infer_gradient(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &(hd_shape){1, {node->geom.ci}});
}

static int sample_loss(hd_geom *g, int index) {
  static const struct {
    int32_t outputs, ignore_index;
    float label_smoothing, delta;
  } list[] = {{1, -100, 0, 1},     {2, -100, 0, 0.5f},  {10, -100, 0, 1},   {16, -100, 0.1f, 0.25f},
              {17, -100, 0, 1.5f}, {40, 3, 0.3f, 0.1f}, {4, 2, 0, 100},     {5, 0, 1, 1},
              {33, 7, 0, 1},       {1, 0, 0.1f, 1},     {12, -100, 0.5f, 1}};
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = hd__geom_of_shape(&(hd_shape){1, {list[index].outputs}});
  g->ignore_index = list[index].ignore_index;
  g->label_smoothing = list[index].label_smoothing;
  g->delta = list[index].delta;
  return 1;
}

/* `ahead` and `back`: floating-point operations of loss and gradient for each score or output. */
#define LOSS(name, ahead, back)                                                                                        \
  hd_status hd__op_##name##_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {                                       \
    return infer_loss(graph, ctx, node, #name);                                                                        \
  }                                                                                                                    \
  hd_status hd__op_##name##_grad(hd_grad *grad, const hd_node *node) {                                                 \
    return emit_gradient(grad, node, HD_OP_##name##_dx);                                                               \
  }                                                                                                                    \
  int64_t hd__op_##name##_cost(const hd_geom *g) { return 0; }                                                         \
  int64_t hd__op_##name##_flops(const hd_geom *g) { return (ahead) * (int64_t)g->ci; }                                 \
  int hd__op_##name##_sample(hd_geom *g, int index) { return sample_loss(g, index); }                                  \
  hd_status hd__op_##name##_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {                                    \
    return infer_gradient(graph, ctx, node);                                                                           \
  }                                                                                                                    \
  hd_status hd__op_##name##_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }          \
  int64_t hd__op_##name##_dx_cost(const hd_geom *g) { return 0; }                                                      \
  int64_t hd__op_##name##_dx_flops(const hd_geom *g) { return (back) * (int64_t)g->ci; }                               \
  int hd__op_##name##_dx_sample(hd_geom *g, int index) { return sample_loss(g, index); }

/* Maximum, difference, exponential, sum; the gradient has two more divisions and subtracts the label. */
LOSS(cross_entropy, 4, 7)
LOSS(mse, 3, 3)
LOSS(l1, 2, 3)
LOSS(huber, 5, 4)
LOSS(bce_with_logits, 12, 9) /* including an exponential and a logarithm */
