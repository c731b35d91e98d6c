/* linear: y = x w^T + b over flat values, with a ReLU if a pass has fused it; and its gradients.
 *
 * If the input is a flattened image in the image's memory order, the weight's home order follows the memory; files keep
 * PyTorch's order. */
#include <limits.h>

#include "graph/gradient.h"

static hd_status make_params(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  const hd_shape *order = &graph->values[node->in[0]].order;
  hd_shape home = {4, {g->co, g->ci, 1, 1}};
  if (order->rank == 3)
    home = (hd_shape){4, {g->co, order->dim[0], order->dim[1], order->dim[2]}};
  hd_shape weight = {2, {g->co, g->ci}}, bias = {1, {g->co}};
  HD_TRY(hd__op_param(graph, ctx, node, 1, "weight", &weight, &home, g->ci));
  if (node->attrs.bias)
    HD_TRY(hd__op_param(graph, ctx, node, 2, "bias", &bias, &(hd_shape){4, {g->co, 1, 1, 1}}, g->ci));
  return HD_OK;
}

hd_status hd__op_linear_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_value *x = &graph->values[node->in[0]];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->shape.rank != 1)
    return hd__fail(ctx, HD_E_SHAPE, "layer '%s': linear expects a flat input, found %s; put a flatten layer before it",
                    node->name, hd__shape_text(text, sizeof text, &x->shape));
  node->geom = (hd_geom){.ci = x->shape.dim[0],
                         .hi = 1,
                         .wi = 1,
                         .co = node->attrs.out,
                         .ho = 1,
                         .wo = 1,
                         .kh = 1,
                         .kw = 1,
                         .sh = 1,
                         .sw = 1,
                         .pool = 1,
                         .hp = 1,
                         .wp = 1};
  if ((int64_t)node->geom.ci * node->geom.co > INT_MAX / 8)
    return hd__fail(ctx, HD_E_SHAPE, "layer '%s': expected at most %d weights, found %d x %d; use fewer outputs",
                    node->name, INT_MAX / 8, node->geom.co, node->geom.ci);
  HD_TRY(make_params(graph, ctx, node));
  return hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &(hd_shape){1, {node->geom.co}});
}

hd_status hd__op_linear_grad(hd_grad *grad, const hd_node *node) {
  int dy = hd__grad_of(grad, node->out[0]);
  hd_node *mask, *dw, *dx;
  if (node->geom.relu) {
    HD_TRY(hd__grad_node(&mask, grad, HD_OP_relu_dx, node, (int[]){dy, node->out[0]}, 2));
    dy = mask->out[0];
  }
  HD_TRY(hd__grad_node(&dw, grad, HD_OP_linear_dw, node, (int[]){node->in[0], dy}, 2));
  hd__grad_note_param(grad, node->in[1], dw->out[0]);
  if (node->in[2] >= 0)
    hd__grad_note_param(grad, node->in[2], dw->out[1]);
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_linear_dx, node, (int[]){dy, node->in[1]}, 2));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

int64_t hd__op_linear_cost(const hd_geom *g) { return (int64_t)g->ci * g->co; }

int hd__op_linear_sample(hd_geom *g, int index) {
  static const struct {
    int32_t in, out, relu;
  } list[] = {{1, 1, 0}, {17, 3, 0}, {16, 16, 1}, {33, 10, 0}, {100, 35, 1}, {15, 64, 0}};
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = (hd_geom){.ci = list[index].in,
                 .hi = 1,
                 .wi = 1,
                 .co = list[index].out,
                 .ho = 1,
                 .wo = 1,
                 .kh = 1,
                 .kw = 1,
                 .sh = 1,
                 .sw = 1,
                 .pool = 1,
                 .hp = 1,
                 .wp = 1,
                 .relu = list[index].relu};
  return 1;
}

hd_status hd__op_linear_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &(hd_shape){1, {node->geom.ci}});
}

hd_status hd__op_linear_dw_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  HD_TRY(hd__op_output(graph, ctx, node, 0, "dw", HD_VALUE_PARAM_GRAD, HD_F32, &(hd_shape){2, {g->co, g->ci}}));
  if (!node->attrs.bias)
    return HD_OK;
  return hd__op_output(graph, ctx, node, 1, "db", HD_VALUE_PARAM_GRAD, HD_F32, &(hd_shape){1, {g->co}});
}

hd_status hd__op_linear_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_linear_dw_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
int64_t hd__op_linear_dx_cost(const hd_geom *g) { return hd__op_linear_cost(g); }
int64_t hd__op_linear_dw_cost(const hd_geom *g) { return hd__op_linear_cost(g); }
int hd__op_linear_dx_sample(hd_geom *g, int index) { return hd__op_linear_sample(g, index); }
int hd__op_linear_dw_sample(hd_geom *g, int index) { return hd__op_linear_sample(g, index); }
int64_t hd__op_linear_flops(const hd_geom *g) { return 2 * hd__op_linear_cost(g); }
int64_t hd__op_linear_dx_flops(const hd_geom *g) { return 2 * hd__op_linear_cost(g); }
int64_t hd__op_linear_dw_flops(const hd_geom *g) { return 2 * hd__op_linear_cost(g); }
