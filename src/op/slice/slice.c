/* slice: channels start to end - 1 of an image, or elements of a flat value. */
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("start", INT, start, HD_TO_GEOM(slice.start), .low = 0, .high = 1 << 20, .help = "the first channel"),
    HD_SETTING("end", INT, end[0], .low = 0, .high = 1 << 20, .help = "the one behind the last channel; 0: to the end"),
    HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const int32_t start = s->attrs->start, channels = s->x[0].dim[0];
  const int32_t end = s->attrs->end[0] ? s->attrs->end[0] : channels;
  if (s->order[0].rank == 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': slice expects an image or a flat value, found a flattened image; put it before "
                    "flatten",
                    s->layer);
  if (start >= end || end > channels)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': slice expects start below end and end of at most %d channels, found %d and %d; "
                    "change them",
                    s->layer, channels, start, end);
  s->geom = hd__geom_of_shape(&s->x[0]);
  s->geom.co = end - start;
  s->y = s->x[0];
  s->y.dim[0] = end - start;
  return HD_OK;
}

static const hd_geom samples[] = {{.ci = 1, .co = 1},
                                  {.ci = 19, .co = 17, .slice = {.start = 2}},
                                  {.ci = 3, .hi = 4, .wi = 5, .co = 1, .slice = {.start = 2}},
                                  {.ci = 40, .hi = 3, .wi = 3, .co = 20}};

const hd_op_rule hd__rule_slice = {
    .fewest = 1,
    .most = 1,
    .torch = "x[:, start:end]",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_slice_dx, {HD_ARG_DY}},
    HD_SAMPLES(samples),
};
