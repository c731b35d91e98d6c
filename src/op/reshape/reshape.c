/* reshape: PyTorch's view, transpose and view of each sample, for networks that mix places or shuffle channels. */
#include <limits.h>

#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("out", INT, out, .low = 1, .high = 1 << 20, .required = true, .help = "channels of the output"),
    HD_SETTING("size", SIDES, size, .low = 1, .high = 65535, .default_value = 1,
               .help = "height and width of the output"),
    HD_SETTING("swap", SIDES, swap, .low = 1, .high = 1 << 20, .default_value = 1,
               .help = "two parts that change places: x.view(-1, A, B, inner).transpose(1, 2)"),
    HD_SETTING("inner", INT, inner, .low = 1, .high = 1 << 24, .default_value = 1,
               .help = "elements behind both parts, which keep their order"),
    HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const hd_attrs *a = s->attrs;
  const hd_shape image = s->order[0].rank == 3 ? s->order[0] : s->x[0];
  const int64_t elems = hd__shape_elems(&image), pixels = (int64_t)a->size[0] * a->size[1];
  char text[HD_SHAPE_TEXT_BYTES];
  if (pixels > INT_MAX / 8 || a->out != elems / pixels || elems % pixels != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': reshape expects out x height x width to be the %lld elements of %s, found %d x %d x "
                    "%d; change them",
                    s->layer, (long long)elems, hd__shape_text(text, sizeof text, &s->x[0]), a->out, a->size[0],
                    a->size[1]);
  const int64_t swapped = (int64_t)a->swap[0] * a->swap[1];
  if (swapped > elems || elems % swapped != 0 || elems / swapped % a->inner != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': reshape expects swap and inner whose product divides the %lld elements of %s, found "
                    "%d, %d and %d; change them",
                    s->layer, (long long)elems, hd__shape_text(text, sizeof text, &s->x[0]), a->swap[0], a->swap[1],
                    a->inner);
  s->geom = hd__geom_of_shape(&image);
  s->geom.co = a->out;
  s->geom.sides = (hd_sides_geom){{a->size[0], a->size[1]}};
  s->geom.reshape = (hd_reshape_geom){{a->swap[0], a->swap[1]}, a->inner};
  hd__geom_finish(&s->geom);
  s->y = (hd_shape){3, {a->out, a->size[0], a->size[1]}};
  return HD_OK;
}

static const hd_geom samples[] = {
    {.ci = 12, .co = 3, .sides = {{2, 2}}, .reshape = {.swap = {1, 1}, .inner = 1}},
    {.ci = 3, .hi = 4, .wi = 5, .co = 20, .sides = {{1, 3}}, .reshape = {.swap = {3, 20}, .inner = 1}},
    {.ci = 18, .hi = 3, .wi = 3, .co = 18, .sides = {{3, 3}}, .reshape = {.swap = {2, 9}, .inner = 9}},
    {.ci = 5, .hi = 2, .wi = 6, .co = 5, .sides = {{6, 2}}, .reshape = {.swap = {2, 6}, .inner = 1}},
    {.ci = 32, .wi = 1, .hi = 6, .co = 16, .sides = {{3, 4}}, .reshape = {.swap = {4, 3}, .inner = 4}}};

const hd_op_rule hd__rule_reshape = {
    .fewest = 1,
    .most = 1,
    .torch = "x.view(...).transpose(1, 2).reshape(-1, C, H, W)",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_reshape_dx, {HD_ARG_DY}},
    HD_SAMPLES(samples),
};
