/* The shape rule of operations of two values. */
#include "op/op.h"

/* How a value is spread to the shape of another one; -1: it is not. */
static int spread_to(const hd_shape *x, const hd_shape *y) {
  const int pixel_sides = x->rank == 3 ? 2 : 0;
  int spread = x->dim[0] == y->dim[0] ? 0 : HD_SPREAD_CHANNELS;
  bool fits = x->rank == y->rank && (x->dim[0] == y->dim[0] || x->dim[0] == 1), one = true, same = true;
  for (int i = 1; i <= pixel_sides; i++) {
    one &= x->dim[i] == 1;
    same &= x->dim[i] == y->dim[i];
  }
  if (!same)
    spread |= HD_SPREAD_PIXELS;
  return fits && (same || one) ? spread : -1;
}

hd_status hd__shapes_binary(hd_op_shapes *s) {
  char ta[HD_SHAPE_TEXT_BYTES], tb[HD_SHAPE_TEXT_BYTES];
  const int a = spread_to(&s->x[0], &s->x[1]), b = spread_to(&s->x[1], &s->x[0]), large = b < 0;
  if (a < 0 && b < 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects two values of one shape, or one of a single pixel (C x 1 x 1) or a single "
                    "channel (1 x H x W) beside an image, found %s and %s; make the shapes equal",
                    s->layer, s->op, hd__shape_text(ta, sizeof ta, &s->x[0]), hd__shape_text(tb, sizeof tb, &s->x[1]));
  if (a == 0 && b == 0 && !hd__shape_equal(&s->order[0], &s->order[1]))
    return hd__fail(
        s->ctx, HD_E_SHAPE,
        "layer '%s': %s expects two values that were flattened in the same way, found a flattened image and a flat "
        "value; put it before flatten",
        s->layer, s->op);
  s->geom = hd__geom_of_shape(&s->x[large]);
  s->geom.binary.spread[0] = large ? a : 0;
  s->geom.binary.spread[1] = large ? 0 : b;
  s->y = s->x[large];
  s->y_order = s->order[large];
  return HD_OK;
}

void hd__part_binary(hd_geom *g, const hd_geom *layer, int input) {
  const int32_t spread = layer->binary.spread[input];
  g->binary.part = input;
  g->ci = spread & HD_SPREAD_CHANNELS ? 1 : layer->co;
  g->hi = spread & HD_SPREAD_PIXELS ? 1 : layer->ho;
  g->wi = spread & HD_SPREAD_PIXELS ? 1 : layer->wo;
}

int64_t hd__flops_binary(const hd_geom *g, hd_op_role role) {
  return (int64_t)g->co * g->ho * g->wo * (role == HD_ROLE_FORWARD ? 1 : 2);
}

const hd_geom hd__samples_binary[9] = {{.ci = 1},
                                       {.ci = 19},
                                       {.ci = 3, .hi = 4, .wi = 5},
                                       {.ci = 17, .hi = 3, .wi = 3, .binary = {.spread = {0, HD_SPREAD_PIXELS}}},
                                       {.ci = 20, .hi = 2, .wi = 3, .binary = {.spread = {0, HD_SPREAD_CHANNELS}}},
                                       {.ci = 5, .hi = 6, .wi = 7, .binary = {.spread = {0, 3}}},
                                       {.ci = 40, .hi = 3, .wi = 1, .binary = {.spread = {HD_SPREAD_PIXELS, 0}}},
                                       {.ci = 4, .hi = 3, .wi = 5, .binary = {.spread = {HD_SPREAD_CHANNELS, 0}}},
                                       {.ci = 33, .hi = 2, .wi = 2, .binary = {.spread = {3, 0}}}};
