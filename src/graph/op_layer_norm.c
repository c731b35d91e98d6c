/* layer_norm: y = (x - mean) / sqrt(var + eps) * weight + bias over all elements of a sample, with a weight and a bias
 * for each, as PyTorch's LayerNorm of a whole sample's shape; and its gradients.
 *
 * The gradients compute mean and variance again from x. The sums run in the order of memory. */
#include "graph/gradient.h"

static hd_status make_one(int *out, hd_graph *graph, hd_ctx *ctx, const hd_node *node, int slot, const char *suffix,
                          hd_init init) {
  const hd_value *x = &graph->values[node->in[0]];
  hd_shape shape = x->shape, image = x->order.rank == 3 ? x->order : x->shape, home = {4, {1, image.dim[0], 1, 1}};
  if (image.rank == 3) {
    home.dim[2] = image.dim[1];
    home.dim[3] = image.dim[2];
  }
  HD_TRY(hd__graph_new_param(out, graph, ctx, node, slot, suffix, &shape, &home, 1));
  graph->params[graph->values[*out].param].init = init;
  return HD_OK;
}

hd_status hd__op_layer_norm_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  HD_TRY(hd__op_output_like_input(graph, ctx, node));
  node->geom.eps = node->attrs.eps;
  HD_TRY(make_one(&node->in[1], graph, ctx, node, 0, "weight", HD_INIT_ONE));
  return make_one(&node->in[2], graph, ctx, node, 1, "bias", HD_INIT_ZERO);
}

hd_status hd__op_layer_norm_grad(hd_grad *grad, const hd_node *node) {
  int dy = hd__grad_of(grad, node->out[0]);
  hd_node *dw, *dx;
  HD_TRY(hd__grad_node(&dw, grad, HD_OP_layer_norm_dw, node, (int[]){node->in[0], dy}, 2));
  hd__grad_note_param(grad, node->in[1], dw->out[0]);
  hd__grad_note_param(grad, node->in[2], dw->out[1]);
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_layer_norm_dx, node, (int[]){dy, node->in[1], node->in[0]}, 3));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_layer_norm_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_shape shape = graph->values[node->in[2]].shape;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &shape);
}

hd_status hd__op_layer_norm_dw_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_shape shape = graph->values[node->in[0]].shape;
  HD_TRY(hd__op_output(graph, ctx, node, 0, "dw", HD_VALUE_PARAM_GRAD, HD_F32, &shape));
  return hd__op_output(graph, ctx, node, 1, "db", HD_VALUE_PARAM_GRAD, HD_F32, &shape);
}

hd_status hd__op_layer_norm_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_layer_norm_dw_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }

/* Costs count the multiply-adds of layers with weights to multiply; a normalisation is counted in flops. */
int64_t hd__op_layer_norm_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_layer_norm_dx_cost(const hd_geom *g) { return hd__op_layer_norm_cost(g); }
int64_t hd__op_layer_norm_dw_cost(const hd_geom *g) { return hd__op_layer_norm_cost(g); }

static int64_t each(const hd_geom *g, int64_t flops) { return flops * g->ci * g->hi * g->wi; }

/* Per element: four for the moments, two for the normalised value, a multiply-add; in dx two more sums. */
int64_t hd__op_layer_norm_flops(const hd_geom *g) { return each(g, 8); }
int64_t hd__op_layer_norm_dx_flops(const hd_geom *g) { return each(g, 14); }
int64_t hd__op_layer_norm_dw_flops(const hd_geom *g) { return each(g, 9); }

int hd__op_layer_norm_sample(hd_geom *g, int index) {
  static const hd_shape list[] = {{1, {2}}, {1, {16}}, {1, {45}}, {3, {3, 4, 5}}, {3, {17, 1, 3}}, {3, {1, 2, 7}}};
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = hd__geom_of_shape(&list[index]);
  g->eps = 1e-5f;
  return 1;
}

int hd__op_layer_norm_dx_sample(hd_geom *g, int index) { return hd__op_layer_norm_sample(g, index); }
int hd__op_layer_norm_dw_sample(hd_geom *g, int index) { return hd__op_layer_norm_sample(g, index); }
