/* position: learned positions. A weight of as many rows as a sample has places, and a column for each channel, is
 * added. */
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("std", REAL, init_std, .low = 0, .high = 1e6, .default_value = 0.02,
               .help = "standard deviation of the initial weights, which are normally distributed"),
    HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': position expects channels for each place, found %s; put it behind an embedding",
                    s->layer, hd__shape_text(text, sizeof text, x));
  const int32_t places = x->dim[1] * x->dim[2];
  hd_op_param *weight =
      hd__shapes_param(s, "weight", &(hd_shape){2, {places, x->dim[0]}}, &(hd_shape){4, {places, x->dim[0], 1, 1}});
  weight->init = HD_INIT_NORMAL;
  weight->std = s->attrs->init_std;
  return hd__shapes_same(s);
}

static const hd_geom samples[] = {
    {.ci = 3, .hi = 1, .wi = 5}, {.ci = 16, .hi = 1, .wi = 2}, {.ci = 33, .hi = 2, .wi = 3}};

const hd_op_rule hd__rule_position = {
    .fewest = 1,
    .most = 1,
    .torch = "x + nn.Embedding(T, C).weight",
    .settings = settings,
    .shapes = shapes,
    .places = HD_PLACES_WEIGHTED,
    .in_place = true,
    .dx = {HD_OP_position_dx, {HD_ARG_DY}},
    .dw = {HD_OP_position_dw, {HD_ARG_DY}},
    .flops = {1, 0, 1},
    HD_SAMPLES(samples),
};
