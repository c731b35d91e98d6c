/* concat: images of equal height and width, channel after channel, or flat values end to end; and its gradient, which
 * extracts the channels of one input.
 *
 * Flattened images that keep their image's memory order are joined as images; in PyTorch's order the result is the
 * same. */
#include "op/op.h"

/* The image whose memory order an input has; a flat value counts as an image of 1x1 pixels. */
static hd_shape image_of(const hd_op_shapes *s, int i) {
  hd_shape flat = {3, {s->x[i].dim[0], 1, 1}};
  return s->order[i].rank == 3 ? s->order[i] : s->x[i].rank == 3 ? s->x[i] : flat;
}

static hd_status check_alike(const hd_op_shapes *s, int i) {
  char ta[HD_SHAPE_TEXT_BYTES], tb[HD_SHAPE_TEXT_BYTES];
  hd_shape a = image_of(s, 0), b = image_of(s, i);
  bool same_sides = a.dim[1] == b.dim[1] && a.dim[2] == b.dim[2];
  if (s->x[0].rank != s->x[i].rank || (s->x[0].rank == 3 && !same_sides))
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': concat expects images of one height and width or flat values, found %s and %s; make "
                    "all but the channels equal",
                    s->layer, hd__shape_text(ta, sizeof ta, &s->x[0]), hd__shape_text(tb, sizeof tb, &s->x[i]));
  if (!same_sides)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': concat expects values that were flattened in the same way, found %s %s and %s %s; put "
                    "a linear layer before it",
                    s->layer, hd__shape_text(ta, sizeof ta, &s->x[0]),
                    s->order[0].rank == 3 ? "from an image" : "not from an image",
                    hd__shape_text(tb, sizeof tb, &s->x[i]),
                    s->order[i].rank == 3 ? "from an image" : "not from an image");
  return HD_OK;
}

static hd_status shapes(hd_op_shapes *s) {
  hd_shape image = image_of(s, 0);
  int32_t part[HD_CONCAT_INPUTS] = {0};
  bool ordered = false;
  image.dim[0] = 0;
  for (int i = 0; i < s->inputs; i++) {
    HD_TRY(check_alike(s, i));
    ordered |= s->order[i].rank == 3;
    part[i] = image_of(s, i).dim[0];
    image.dim[0] += part[i];
  }
  s->geom = hd__geom_of_shape(&image);
  for (int i = 0; i < HD_CONCAT_INPUTS; i++)
    s->geom.concat.part[i] = part[i];
  s->y = image;
  if (s->x[0].rank != 1)
    return HD_OK;
  s->y = (hd_shape){1, {(int32_t)hd__shape_elems(&image)}};
  if (ordered)
    s->y_order = image;
  return HD_OK;
}

static void part_of(hd_geom *g, const hd_geom *layer, int input) {
  int32_t first = 0;
  for (int i = 0; i < input; i++)
    first += layer->concat.part[i];
  g->concat.first = first;
  g->ci = layer->concat.part[input];
}

_Static_assert((int)HD_CONCAT_INPUTS <= (int)HD_MAX_IN, "an input needs a slot of a call");

static const hd_geom samples[] = {{.ci = 2, .concat = {.part = {1, 1}}},
                                  {.ci = 38, .concat = {.part = {19, 3, 16}}},
                                  {.ci = 18, .hi = 3, .wi = 2, .concat = {.part = {1, 17}}},
                                  {.ci = 32, .hi = 2, .wi = 5, .concat = {.part = {16, 16}}},
                                  {.ci = 49, .hi = 4, .wi = 1, .concat = {.part = {5, 1, 2, 3, 4, 33, 1}}}};

const hd_op_rule hd__rule_concat = {
    .fewest = 2,
    .most = HD_CONCAT_INPUTS,
    .torch = "torch.cat((a, b), 1)",
    .shapes = shapes,
    .dx = {HD_OP_concat_dx, {HD_ARG_DY}},
    .dx_kind = HD_DX_EACH,
    .part = part_of,
    HD_SAMPLES(samples),
};
