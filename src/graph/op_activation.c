/* sigmoid, tanh, leaky_relu and gelu: activations beside ReLU; and their gradients.
 *
 * The gradients of the first three read the output, so that the input's memory may be given up; gelu's reads the input. */
#include "graph/op.h"

hd_status hd__op_sigmoid_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return hd__op_output_like_input(graph, ctx, node);
}

hd_status hd__op_tanh_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return hd__op_output_like_input(graph, ctx, node);
}

hd_status hd__op_leaky_relu_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  HD_TRY(hd__op_output_like_input(graph, ctx, node));
  node->geom.negative_slope = node->attrs.negative_slope;
  return HD_OK;
}

hd_status hd__op_gelu_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  HD_TRY(hd__op_output_like_input(graph, ctx, node));
  node->geom.approximate = node->attrs.approximate;
  return HD_OK;
}

/* dx from dy and `other`. */
static hd_status activation_grad(hd_grad *grad, const hd_node *node, hd_op op, int other) {
  hd_node *dx;
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, op, node, (int[]){hd__grad_of(grad, node->out[0]), other}, 2));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_sigmoid_grad(hd_grad *grad, const hd_node *node) {
  return activation_grad(grad, node, HD_OP_sigmoid_dx, node->out[0]);
}

hd_status hd__op_tanh_grad(hd_grad *grad, const hd_node *node) {
  return activation_grad(grad, node, HD_OP_tanh_dx, node->out[0]);
}

hd_status hd__op_leaky_relu_grad(hd_grad *grad, const hd_node *node) {
  return activation_grad(grad, node, HD_OP_leaky_relu_dx, node->out[0]);
}

hd_status hd__op_gelu_grad(hd_grad *grad, const hd_node *node) {
  return activation_grad(grad, node, HD_OP_gelu_dx, node->in[0]);
}

static hd_status dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_shape shape = graph->values[node->in[1]].shape;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &shape);
}

hd_status hd__op_sigmoid_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) { return dx_infer(graph, ctx, node); }
hd_status hd__op_tanh_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) { return dx_infer(graph, ctx, node); }
hd_status hd__op_leaky_relu_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) { return dx_infer(graph, ctx, node); }
hd_status hd__op_gelu_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) { return dx_infer(graph, ctx, node); }

hd_status hd__op_sigmoid_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_tanh_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_leaky_relu_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_gelu_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }

static int64_t no_multiplies(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_sigmoid_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_sigmoid_dx_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_tanh_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_tanh_dx_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_leaky_relu_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_leaky_relu_dx_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_gelu_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_gelu_dx_cost(const hd_geom *g) { return no_multiplies(g); }

/* Every shape in both forms, and with two slopes. */
static int activation_sample(hd_geom *g, int index) {
  if (!hd__op_sample_elementwise(g, index / 2))
    return 0;
  g->approximate = index % 2;
  g->negative_slope = index % 2 ? 0.01f : 0.3f;
  return 1;
}

/* Operations of one element; a tanh or an erf is one. */
static int64_t each(const hd_geom *g, int64_t flops) { return flops * g->ci * g->hi * g->wi; }

int64_t hd__op_sigmoid_flops(const hd_geom *g) { return each(g, 3); }
int64_t hd__op_sigmoid_dx_flops(const hd_geom *g) { return each(g, 3); }
int64_t hd__op_tanh_flops(const hd_geom *g) { return each(g, 1); }
int64_t hd__op_tanh_dx_flops(const hd_geom *g) { return each(g, 3); }
int64_t hd__op_leaky_relu_flops(const hd_geom *g) { return each(g, 2); }
int64_t hd__op_leaky_relu_dx_flops(const hd_geom *g) { return each(g, 2); }
int64_t hd__op_gelu_flops(const hd_geom *g) { return each(g, 4); }
int64_t hd__op_gelu_dx_flops(const hd_geom *g) { return each(g, 9); }

int hd__op_sigmoid_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }
int hd__op_sigmoid_dx_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }
int hd__op_tanh_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }
int hd__op_tanh_dx_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }
int hd__op_leaky_relu_sample(hd_geom *g, int index) { return activation_sample(g, index); }
int hd__op_leaky_relu_dx_sample(hd_geom *g, int index) { return activation_sample(g, index); }
int hd__op_gelu_sample(hd_geom *g, int index) { return activation_sample(g, index); }
int hd__op_gelu_dx_sample(hd_geom *g, int index) { return activation_sample(g, index); }
