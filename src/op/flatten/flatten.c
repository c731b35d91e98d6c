/* flatten: an image as a flat value. Memory keeps its order, and y is a view, unless the elements have to be moved into
 * PyTorch's order. */
#include "op/op.h"

static hd_status shapes(hd_op_shapes *s) {
  hd_shape image = s->order[0].rank == 3 ? s->order[0] : s->x[0];
  s->geom = hd__geom_of_shape(&image);
  s->y = (hd_shape){1, {(int32_t)hd__shape_elems(&image)}};
  bool ordered = s->geom.ci == 1 || s->geom.hi * s->geom.wi == 1;
  s->view = ordered || !s->attrs->move;
  if (!ordered && !s->attrs->move)
    s->y_order = image;
  return HD_OK;
}

const hd_op_rule hd__rule_flatten = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.Flatten",
    .shapes = shapes,
    .dx = {HD_OP_flatten_dx, {HD_ARG_DY}},
    HD_SAMPLES(hd__samples_each),
};
