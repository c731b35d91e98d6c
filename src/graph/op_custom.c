/* custom: operations of the caller's program. The graph has one operation, `custom`, and its gradient; the node
 * refers to the caller's operation. The kernels call the program for each sample: they are not vectorised, and the
 * table-driven tests skip them (tests/unit/test_custom_op.c compares them with built-in operations). */
#include "graph/gradient.h"
#include "heddle/custom_op.h"

enum { MAX_SIDE = 1 << 20 };

/* Calls the operation for its output's shape. */
static hd_status shape_of_output(hd_shape *out, hd_ctx *ctx, const hd_node *node, const hd_shape *in) {
  const hd_custom_op *op = node->attrs.custom_op;
  const hd_geom *g = &node->geom;
  hd_custom_shape x = {g->ci, g->hi, g->wi}, y = x;
  char text[HD_SHAPE_TEXT_BYTES];
  if (op->shape && op->shape(&y, &x, op->user) != 0)
    return hd__fail(ctx, HD_E_SHAPE, "layer '%s': expected a shape that %s takes, found %s; change the layer above",
                    node->name, op->name, hd__shape_text(text, sizeof text, in));
  bool good = y.channels > 0 && y.height > 0 && y.width > 0 && y.channels <= MAX_SIDE && y.height <= MAX_SIDE &&
              y.width <= MAX_SIDE;
  *out = (hd_shape){3, {y.channels, y.height, y.width}};
  if (!good)
    return hd__fail(ctx, HD_E_SHAPE, "layer '%s': expected sides from 1 to %d as the shape of %s, found %s", node->name,
                    MAX_SIDE, op->name, hd__shape_text(text, sizeof text, out));
  if (in->rank == 1 && y.height == 1 && y.width == 1)
    out->rank = 1;
  return HD_OK;
}

/* A flattened image in the image's memory order is passed as that image; the operation must then keep the shape. */
hd_status hd__op_custom_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_custom_op *op = node->attrs.custom_op;
  hd_value x = graph->values[node->in[0]];
  hd_shape shape;
  for (int i = 1; i < op->inputs; i++) {
    const hd_value *other = &graph->values[node->in[i]];
    char ta[HD_SHAPE_TEXT_BYTES], tb[HD_SHAPE_TEXT_BYTES];
    if (!hd__shape_equal(&x.shape, &other->shape) || !hd__shape_equal(&x.order, &other->order))
      return hd__fail(
          ctx, HD_E_SHAPE, "layer '%s': %s expects values of one shape and order, found %s and %s; make them equal",
          node->name, op->name, hd__shape_text(ta, sizeof ta, &x.shape), hd__shape_text(tb, sizeof tb, &other->shape));
  }
  if (x.order.rank == 3 && op->shape)
    return hd__fail(ctx, HD_E_SHAPE, "layer '%s': %s expects an image, found a flattened one; put it before flatten",
                    node->name, op->name);
  node->geom = hd__geom_of_shape(x.order.rank == 3 ? &x.order : &x.shape);
  node->geom.custom_op = op;
  if (!op->shape) {
    HD_TRY(hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &x.shape));
    graph->values[node->out[0]].order = x.order;
    return HD_OK;
  }
  HD_TRY(shape_of_output(&shape, ctx, node, &x.shape));
  node->geom.co = shape.dim[0];
  node->geom.ho = node->geom.hp = shape.rank == 3 ? shape.dim[1] : 1;
  node->geom.wo = node->geom.wp = shape.rank == 3 ? shape.dim[2] : 1;
  return hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &shape);
}

/* custom_dx reads dy, y and the inputs; it writes the gradients that are wanted. */
hd_status hd__op_custom_grad(hd_grad *grad, const hd_node *node) {
  int inputs = node->attrs.custom_op->inputs;
  bool wants[HD_CUSTOM_OP_INPUTS] = {hd__grad_wants(grad, node->in[0]),
                                     inputs > 1 && hd__grad_wants(grad, node->in[1])};
  if (!wants[0] && !wants[1])
    return HD_OK;
  const int in[] = {hd__grad_of(grad, node->out[0]), node->out[0], node->in[0], node->in[1]};
  hd_node *dx;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_custom_dx, node, in, 4));
  const int out[] = {dx->out[0], dx->out[1]};
  for (int i = 0; i < inputs; i++)
    if (wants[i])
      HD_TRY(hd__grad_give(grad, node->in[i], out[i]));
  return HD_OK;
}

hd_status hd__op_custom_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  static const char *const suffix[HD_CUSTOM_OP_INPUTS] = {"dx", "dx2"};
  for (int i = 0; i < node->attrs.custom_op->inputs; i++) {
    hd_value x = graph->values[node->in[2 + i]];
    HD_TRY(hd__op_output(graph, ctx, node, i, suffix[i], HD_VALUE_ROWS, HD_F32, &x.shape));
  }
  return HD_OK;
}

hd_status hd__op_custom_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }

static int64_t nothing(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_custom_cost(const hd_geom *g) { return nothing(g); }
int64_t hd__op_custom_dx_cost(const hd_geom *g) { return nothing(g); }

int64_t hd__op_custom_flops(const hd_geom *g) { return g->custom_op->flops * g->co * g->hp * g->wp; }
int64_t hd__op_custom_dx_flops(const hd_geom *g) { return 2 * hd__op_custom_flops(g); }

static int no_sample(hd_geom *g, int index) {
  (void)g;
  (void)index;
  return 0;
}

int hd__op_custom_sample(hd_geom *g, int index) { return no_sample(g, index); }
int hd__op_custom_dx_sample(hd_geom *g, int index) { return no_sample(g, index); }
