/* relu, flatten and add: operations that move or combine elements one by one; and their gradients. */
#include "graph/op.h"

/* Geometry of an elementwise operation: kernels see ci channels of hi x wi. */
static hd_geom pointwise_geom(const hd_shape *shape) {
  hd_geom g = {.ci = shape->dim[0], .hi = 1, .wi = 1, .kh = 1, .kw = 1, .sh = 1, .sw = 1, .pool = 1};
  if (shape->rank == 3) {
    g.hi = shape->dim[1];
    g.wi = shape->dim[2];
  }
  g.co = g.ci;
  hd__geom_finish(&g);
  return g;
}

/* The output of an elementwise operation has its input's shape and memory order. */
static hd_status same_output(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_value x = graph->values[node->in[0]];
  node->geom = pointwise_geom(&x.shape);
  HD_TRY(hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &x.shape));
  graph->values[node->out[0]].order = x.order;
  return HD_OK;
}

static int pointwise_sample(hd_geom *g, int index) {
  static const hd_shape list[] = {{1, {1}}, {1, {19}}, {3, {3, 4, 5}}, {3, {17, 3, 3}}, {3, {1, 6, 7}}};
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = pointwise_geom(&list[index]);
  return 1;
}

hd_status hd__op_relu_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) { return same_output(graph, ctx, node); }

hd_status hd__op_relu_grad(hd_grad *grad, const hd_node *node) {
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  hd_node *dx;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_relu_dx, node, (int[]){hd__grad_of(grad, node->out[0]), node->out[0]}, 2));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

/* The mask may stand behind a fused operation, whose geometry describes more: its output is what counts. */
hd_status hd__op_relu_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_shape shape = graph->values[node->in[1]].shape;
  node->geom = pointwise_geom(&shape);
  return hd__op_output(graph, ctx, node, 0, "mask", HD_VALUE_ROWS, HD_F32, &shape);
}

hd_status hd__op_flatten_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_value *x = &graph->values[node->in[0]];
  hd_shape shape = x->order.rank == 3 ? x->order : x->shape;
  node->geom = pointwise_geom(&shape);
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
  return same_output(graph, ctx, node);
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

int hd__op_relu_sample(hd_geom *g, int index) { return pointwise_sample(g, index); }
int hd__op_relu_dx_sample(hd_geom *g, int index) { return pointwise_sample(g, index); }
int hd__op_flatten_sample(hd_geom *g, int index) { return pointwise_sample(g, index); }
int hd__op_flatten_dx_sample(hd_geom *g, int index) { return pointwise_sample(g, index); }
int hd__op_add_sample(hd_geom *g, int index) { return pointwise_sample(g, index); }
