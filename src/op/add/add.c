/* add: y = a + b, of values of one shape. The gradient of both is dy. */
#include "op/op.h"

static hd_status shapes(hd_op_shapes *s) {
  char ta[HD_SHAPE_TEXT_BYTES], tb[HD_SHAPE_TEXT_BYTES];
  if (!hd__shape_equal(&s->x[0], &s->x[1]))
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': add expects two values of one shape, found %s and %s; make the shapes equal", s->layer,
                    hd__shape_text(ta, sizeof ta, &s->x[0]), hd__shape_text(tb, sizeof tb, &s->x[1]));
  if (!hd__shape_equal(&s->order[0], &s->order[1]))
    return hd__fail(
        s->ctx, HD_E_SHAPE,
        "layer '%s': add expects two values that were flattened in the same way, found a flattened image and a flat "
        "value; add before flatten",
        s->layer);
  return hd__shapes_same(s);
}

const hd_op_rule hd__rule_add = {
    .fewest = 2,
    .most = 2,
    .torch = "a + b",
    .shapes = shapes,
    .places = HD_PLACES_SAME,
    .dx_kind = HD_DX_SAME,
    .in_place = true,
    .flops = {1},
    HD_SAMPLES(hd__samples_each),
};
