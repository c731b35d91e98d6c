/* custom: operations of the caller's program. The graph has one operation, `custom`, and its gradient; the node
 * refers to the caller's operation. The kernels call the program for each sample: they are not vectorised, and the
 * table-driven tests skip them (tests/unit/test_custom_op.c compares them with built-in operations). */
#include "heddle/custom_op.h"
#include "op/op.h"

enum { MAX_SIDE = 1 << 20 };

/* Calls the operation for its output's shape. */
static hd_status call_for_shape(hd_shape *out, const hd_op_shapes *s) {
  const hd_custom_op *op = s->attrs->custom_op;
  const hd_geom *g = &s->geom;
  const hd_shape *in = &s->x[0];
  hd_custom_shape x = {g->ci, g->hi, g->wi}, y = x;
  char text[HD_SHAPE_TEXT_BYTES];
  if (op->shape && op->shape(&y, &x, op->user) != 0)
    return hd__fail(s->ctx, HD_E_SHAPE, "layer '%s': expected a shape that %s takes, found %s; change the layer above",
                    s->layer, op->name, hd__shape_text(text, sizeof text, in));
  bool good = y.channels > 0 && y.height > 0 && y.width > 0 && y.channels <= MAX_SIDE && y.height <= MAX_SIDE &&
              y.width <= MAX_SIDE;
  *out = (hd_shape){3, {y.channels, y.height, y.width}};
  if (!good)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': expected sides from 1 to %d as the shape of %s, found %s; correct its shapes",
                    s->layer, MAX_SIDE, op->name, hd__shape_text(text, sizeof text, out));
  if (in->rank == 1 && y.height == 1 && y.width == 1)
    out->rank = 1;
  return HD_OK;
}

/* A flattened image in the image's memory order is passed as that image; the operation must then keep the shape. */
static hd_status shapes(hd_op_shapes *s) {
  const hd_custom_op *op = s->attrs->custom_op;
  char ta[HD_SHAPE_TEXT_BYTES], tb[HD_SHAPE_TEXT_BYTES];
  for (int i = 1; i < op->inputs; i++)
    if (!hd__shape_equal(&s->x[0], &s->x[i]) || !hd__shape_equal(&s->order[0], &s->order[i]))
      return hd__fail(
          s->ctx, HD_E_SHAPE, "layer '%s': %s expects values of one shape and order, found %s and %s; make them equal",
          s->layer, op->name, hd__shape_text(ta, sizeof ta, &s->x[0]), hd__shape_text(tb, sizeof tb, &s->x[i]));
  if (s->order[0].rank == 3 && op->shape)
    return hd__fail(s->ctx, HD_E_SHAPE, "layer '%s': %s expects an image, found a flattened one; put it before flatten",
                    s->layer, op->name);
  s->geom = hd__geom_of_shape(s->order[0].rank == 3 ? &s->order[0] : &s->x[0]);
  s->geom.custom.op = op;
  s->y = s->x[0];
  s->y_order = s->order[0];
  if (!op->shape)
    return HD_OK;
  HD_TRY(call_for_shape(&s->y, s));
  s->geom.co = s->y.dim[0];
  s->geom.ho = s->geom.hp = s->y.rank == 3 ? s->y.dim[1] : 1;
  s->geom.wo = s->geom.wp = s->y.rank == 3 ? s->y.dim[2] : 1;
  return HD_OK;
}

static int64_t flops(const hd_geom *g, hd_op_role role) {
  return (role == HD_ROLE_FORWARD ? 1 : 2) * g->custom.op->flops * g->co * g->hp * g->wp;
}

const hd_op_rule hd__rule_custom = {
    .shapes = shapes,
    .dx = {HD_OP_custom_dx, {HD_ARG_DY, HD_ARG_Y, HD_ARG_X, HD_ARG_W}}, /* in[1] is the second input */
    .dx_kind = HD_DX_ALL,
    .flops_of = flops,
};
