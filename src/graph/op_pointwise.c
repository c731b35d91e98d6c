/* relu, flatten and add: operations that move or combine elements one by one; and their gradients. */
#include "graph/gradient.h"

hd_status hd__op_relu_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return hd__op_output_like_input(graph, ctx, node);
}

hd_status hd__op_relu_grad(hd_grad *grad, const hd_node *node) {
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  hd_node *dx;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_relu_dx, node, (int[]){hd__grad_of(grad, node->out[0]), node->out[0]}, 2));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

/* The mask may follow a fused operation, whose geometry describes more than its output; the output's shape is used. */
hd_status hd__op_relu_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_shape shape = graph->values[node->in[1]].shape;
  node->geom = hd__geom_of_shape(&shape);
  return hd__op_output(graph, ctx, node, 0, "mask", HD_VALUE_ROWS, HD_F32, &shape);
}

hd_status hd__op_flatten_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_value *x = &graph->values[node->in[0]];
  hd_shape shape = x->order.rank == 3 ? x->order : x->shape;
  node->geom = hd__geom_of_shape(&shape);
  HD_TRY(hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32,
                       &(hd_shape){1, {(int32_t)hd__shape_elems(&shape)}}));
  bool ordered = node->geom.ci == 1 || node->geom.hi * node->geom.wi == 1;
  node->view = ordered || !node->attrs.move;
  if (!ordered && !node->attrs.move)
    graph->values[node->out[0]].order = shape;
  return HD_OK;
}

hd_status hd__op_flatten_grad(hd_grad *grad, const hd_node *node) {
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  hd_node *dx;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_flatten_dx, node, (int[]){hd__grad_of(grad, node->out[0])}, 1));
  dx->view = node->view;
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_flatten_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  hd_shape image = {3, {g->ci, g->hi, g->wi}}, flat = {1, {g->ci}};
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, g->hi * g->wi > 1 ? &image : &flat);
}

hd_status hd__op_add_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_value *a = &graph->values[node->in[0]], *b = &graph->values[node->in[1]];
  char ta[HD_SHAPE_TEXT_BYTES], tb[HD_SHAPE_TEXT_BYTES];
  if (!hd__shape_equal(&a->shape, &b->shape))
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': add expects two values of one shape, found %s and %s; make the shapes equal",
                    node->name, hd__shape_text(ta, sizeof ta, &a->shape), hd__shape_text(tb, sizeof tb, &b->shape));
  if (!hd__shape_equal(&a->order, &b->order))
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': add expects two values that were flattened alike, found a flattened image and a flat "
                    "value; add before flatten",
                    node->name);
  return hd__op_output_like_input(graph, ctx, node);
}

hd_status hd__op_add_grad(hd_grad *grad, const hd_node *node) {
  int dy = hd__grad_of(grad, node->out[0]);
  for (int i = 0; i < 2; i++)
    if (hd__grad_wants(grad, node->in[i]))
      HD_TRY(hd__grad_give(grad, node->in[i], dy));
  return HD_OK;
}

hd_status hd__op_relu_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_flatten_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }

static int64_t no_multiplies(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_relu_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_relu_dx_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_flatten_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_flatten_dx_cost(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_add_cost(const hd_geom *g) { return no_multiplies(g); }

int hd__op_relu_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }
int hd__op_relu_dx_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }
int hd__op_flatten_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }
int hd__op_flatten_dx_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }
int hd__op_add_sample(hd_geom *g, int index) { return hd__op_sample_elementwise(g, index); }

static int64_t one_each(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

int64_t hd__op_relu_flops(const hd_geom *g) { return one_each(g); }
int64_t hd__op_relu_dx_flops(const hd_geom *g) { return one_each(g); }
int64_t hd__op_flatten_flops(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_flatten_dx_flops(const hd_geom *g) { return no_multiplies(g); }
int64_t hd__op_add_flops(const hd_geom *g) { return one_each(g); }
