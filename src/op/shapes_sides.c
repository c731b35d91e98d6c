/* Shape rules of operations over images whose output's sides no window decides, of norms of channels, and their
 * samples. */
#include <limits.h>

#include "op/op.h"

hd_status hd__shapes_image(hd_op_shapes *s) {
  char text[HD_SHAPE_TEXT_BYTES];
  if (s->x[0].rank != 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects an image (channels x height x width), found %s; put it before flatten",
                    s->layer, s->op, hd__shape_text(text, sizeof text, &s->x[0]));
  return hd__shapes_same(s);
}

hd_status hd__shapes_sides(hd_op_shapes *s, const int32_t out[2]) {
  HD_TRY(hd__shapes_image(s));
  s->geom.sides = (hd_sides_geom){{out[0], out[1]}};
  if (out[0] < 1 || out[1] < 1 || (int64_t)out[0] * out[1] > INT_MAX / 8 / s->geom.ci || !hd__geom_finish(&s->geom))
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects an output of at most %d elements, found %d x %d x %d; "
                    "make it smaller",
                    s->layer, s->op, INT_MAX / 8, s->geom.ci, out[0], out[1]);
  s->y = (hd_shape){3, {s->geom.ci, out[0], out[1]}};
  return HD_OK;
}

hd_status hd__shapes_adaptive(hd_op_shapes *s) { return hd__shapes_sides(s, s->attrs->size); }

hd_status hd__shapes_line(hd_op_shapes *s) {
  if (!s->attrs->over)
    return hd__shapes_sides(s, (const int32_t[]){1, 1});
  HD_TRY(hd__shapes_image(s));
  s->geom.co = s->y.dim[0] = 1;
  return HD_OK;
}

hd_status hd__shapes_channel_norm(hd_op_shapes *s, bool biased) {
  const int32_t channels = s->x[0].dim[0];
  const hd_shape shape = {1, {channels}}, in_memory = {4, {channels, 1, 1, 1}};
  if (s->order[0].rank == 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects an image or a flat value, found a flattened image; put it before flatten",
                    s->layer, s->op);
  hd__shapes_param(s, "weight", &shape, &in_memory)->init = HD_INIT_ONE;
  if (biased)
    hd__shapes_param(s, "bias", &shape, &in_memory)->init = HD_INIT_ZERO;
  return hd__shapes_same(s);
}

const hd_geom hd__samples_line[5] = {{.ci = 1, .co = 1, .sides = {{1, 1}}},
                                     {.ci = 3, .hi = 4, .wi = 5, .co = 3, .sides = {{1, 1}}},
                                     {.ci = 33, .hi = 3, .wi = 3, .co = 33, .sides = {{1, 1}}},
                                     {.ci = 40, .hi = 3, .wi = 2, .co = 1, .line = {.channels = 1}},
                                     {.ci = 5, .hi = 6, .wi = 7, .co = 1, .line = {.channels = 1}}};

const hd_geom hd__samples_adaptive[5] = {{.ci = 1, .sides = {{1, 1}}},
                                         {.ci = 3, .hi = 7, .wi = 6, .sides = {{3, 2}}},
                                         {.ci = 17, .hi = 4, .wi = 5, .sides = {{3, 4}}},
                                         {.ci = 20, .hi = 3, .wi = 2, .sides = {{5, 2}}},
                                         {.ci = 2, .hi = 6, .wi = 6, .sides = {{1, 3}}}};

const hd_geom hd__samples_channel_norm[5] = {{.ci = 2, .norm = {.eps = 1e-5f}},
                                             {.ci = 16, .norm = {.eps = 1e-5f}},
                                             {.ci = 45, .norm = {.eps = 1e-3f}},
                                             {.ci = 5, .hi = 4, .wi = 3, .norm = {.eps = 1e-5f}},
                                             {.ci = 33, .hi = 2, .wi = 2, .norm = {.eps = 1e-5f}}};

const hd_geom hd__samples_instance_norm[3] = {{.ci = 2, .hi = 3, .wi = 4, .norm = {.groups = 2, .eps = 1e-5f}},
                                              {.ci = 17, .hi = 5, .wi = 4, .norm = {.groups = 17, .eps = 1e-5f}},
                                              {.ci = 3, .hi = 6, .wi = 6, .norm = {.groups = 3, .eps = 1e-3f}}};
