/* Functions that the shape rules of operations share. */
#include <limits.h>

#include "op/op.h"

hd_geom hd__geom_of_shape(const hd_shape *shape) {
  hd_geom g = {
      .ci = shape->dim[0], .hi = 1, .wi = 1, .window = {.kh = 1, .kw = 1, .sh = 1, .sw = 1}, .conv = {.pool = 1}};
  if (shape->rank == 3) {
    g.hi = shape->dim[1];
    g.wi = shape->dim[2];
  }
  g.co = g.ci;
  hd__geom_finish(&g);
  return g;
}

static int32_t whole(int64_t pixels) { return pixels < 0 || pixels > INT_MAX ? 0 : (int32_t)pixels; }

/* Pixels of the output along an axis, from the input's, the kernel's span and the stride. */
static int32_t output_side(const hd_geom *g, int axis, int64_t input, int64_t reach, int64_t step, int64_t padding) {
  if (g->sides.out[axis])
    return g->sides.out[axis];
  if (g->window.ceil_mode && input + 2 * padding + step - 1 >= reach) {
    const int64_t last = (input + 2 * padding - reach + step - 1) / step; /* it begins in the image, or before it */
    return whole(last - (last * step >= input + padding) + 1);
  }
  if (g->window.transposed)
    return whole((input - 1) * step - 2 * padding + reach + g->conv_transpose2d.output_padding[axis]);
  return input + 2 * padding < reach ? 0 : whole((input + 2 * padding - reach) / step + 1);
}

int hd__geom_finish(hd_geom *g) {
  int32_t *const defaults[] = {&g->conv.groups, &g->norm.groups, &g->window.dilation[0], &g->window.dilation[1]};
  for (int i = 0; i < 4; i++)
    *defaults[i] = *defaults[i] ? *defaults[i] : 1;
  const hd_window_geom *w = &g->window;
  g->ho = output_side(g, 0, g->hi, (int64_t)w->dilation[0] * (w->kh - 1) + 1, w->sh, w->ph);
  g->wo = output_side(g, 1, g->wi, (int64_t)w->dilation[1] * (w->kw - 1) + 1, w->sw, w->pw);
  g->hp = g->ho / g->conv.pool;
  g->wp = g->wo / g->conv.pool;
  return g->hp > 0 && g->wp > 0;
}

hd_status hd__shapes_same(hd_op_shapes *s) {
  s->geom = hd__geom_of_shape(&s->x[0]);
  s->y = s->x[0];
  s->y_order = s->order[0];
  return HD_OK;
}

int hd__corners_hard(double at[HD_OP_CORNERS], const hd_geom *g) {
  at[0] = -3;
  at[1] = 3;
  return 2;
}

hd_status hd__shapes_pool(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0];
  const hd_attrs *a = s->attrs;
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects an image (channels x height x width), found %s; put it before flatten",
                    s->layer, s->op, hd__shape_text(text, sizeof text, x));
  if (2 * a->padding[0] > a->kernel[0] || 2 * a->padding[1] > a->kernel[1])
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects padding of at most half the kernel, found %d; use less padding", s->layer,
                    s->op, a->padding[2 * a->padding[0] <= a->kernel[0]]);
  s->geom = (hd_geom){.ci = x->dim[0],
                      .hi = x->dim[1],
                      .wi = x->dim[2],
                      .co = x->dim[0],
                      .window = {.kh = a->kernel[0],
                                 .kw = a->kernel[1],
                                 .sh = a->stride[0] ? a->stride[0] : a->kernel[0],
                                 .sw = a->stride[1] ? a->stride[1] : a->kernel[1],
                                 .ph = a->padding[0],
                                 .pw = a->padding[1],
                                 .ceil_mode = a->ceil_mode},
                      .conv = {.pool = 1}};
  const hd_geom *g = &s->geom;
  if (!hd__geom_finish(&s->geom))
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': a %dx%d window expects an input at least that large, found %s; use a smaller kernel",
                    s->layer, g->window.kh, g->window.kw, hd__shape_text(text, sizeof text, x));
  s->y = (hd_shape){3, {g->co, g->ho, g->wo}};
  return HD_OK;
}

int64_t hd__flops_mean(const hd_geom *g, hd_op_role role) {
  return (int64_t)g->co * g->ho * g->wo * (g->window.kh * g->window.kw + 1);
}

hd_status hd__shapes_conv(hd_op_shapes *s) {
  const hd_attrs *a = s->attrs;
  const hd_shape *x = &s->x[0];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects an image (channels x height x width), found %s; put it before flatten",
                    s->layer, s->op, hd__shape_text(text, sizeof text, x));
  if (x->dim[0] % a->groups != 0 || a->out % a->groups != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': %s expects groups that divide both its %d input channels and its %d outputs, found "
                    "groups %d; use a common divisor",
                    s->layer, s->op, x->dim[0], a->out, a->groups);
  s->geom = (hd_geom){.ci = x->dim[0],
                      .hi = x->dim[1],
                      .wi = x->dim[2],
                      .co = a->out,
                      .window = {.kh = a->kernel[0],
                                 .kw = a->kernel[1],
                                 .sh = a->stride[0],
                                 .sw = a->stride[1],
                                 .ph = a->padding[0],
                                 .pw = a->padding[1],
                                 .dilation = {a->dilation[0], a->dilation[1]}},
                      .conv = {.groups = a->groups, .pool = 1}};
  return HD_OK;
}

hd_status hd__shapes_conv_params(hd_op_shapes *s, const hd_shape *weight) {
  const int32_t *dim = weight->dim;
  if ((int64_t)dim[0] * dim[1] * dim[2] * dim[3] > INT_MAX / 8)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': expected at most %d weights, found %d x %d x %d x %d; use fewer channels", s->layer,
                    INT_MAX / 8, dim[0], dim[1], dim[2], dim[3]);
  hd__shapes_param(s, "weight", weight, weight);
  if (s->attrs->bias)
    hd__shapes_param(s, "bias", &(hd_shape){1, {s->geom.co}}, &(hd_shape){4, {s->geom.co, 1, 1, 1}});
  for (int i = 0; i < s->params; i++) {
    s->param[i].fan_in = dim[1] * dim[2] * dim[3];
    s->param[i].shared = true;
  }
  return HD_OK;
}

hd_status hd__shapes_loss(hd_op_shapes *s) {
  char text[HD_SHAPE_TEXT_BYTES];
  if (s->x[0].rank != 1)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "the last layer: %s expects one flat score per class or output, found %s; end the model with "
                    "flatten and linear",
                    s->op, hd__shape_text(text, sizeof text, &s->x[0]));
  s->geom = hd__geom_of_shape(&s->x[0]);
  s->y = (hd_shape){.rank = 0};
  return HD_OK;
}

hd_op_param *hd__shapes_param(hd_op_shapes *s, const char *suffix, const hd_shape *shape, const hd_shape *in_memory) {
  hd_op_param *param = &s->param[s->params++];
  *param = (hd_op_param){.suffix = suffix, .shape = *shape, .in_memory = *in_memory, .fan_in = 1};
  return param;
}

const hd_geom hd__samples_each[5] = {
    {.ci = 1}, {.ci = 19}, {.ci = 3, .hi = 4, .wi = 5}, {.ci = 17, .hi = 3, .wi = 3}, {.ci = 1, .hi = 6, .wi = 7}};

const hd_geom hd__samples_dropout[5] = {{.ci = 1, .dropout = {.p = 0.5f}},
                                        {.ci = 19},
                                        {.ci = 3, .hi = 4, .wi = 5, .dropout = {.p = 0.1f}},
                                        {.ci = 17, .hi = 3, .wi = 3, .dropout = {.p = 0.9f}},
                                        {.ci = 1, .hi = 6, .wi = 7, .dropout = {.p = 1}}};

const hd_geom hd__samples_softmax[6] = {{.ci = 1},
                                        {.ci = 16},
                                        {.ci = 45},
                                        {.ci = 3, .hi = 4, .wi = 5},
                                        {.ci = 17, .hi = 3, .wi = 3},
                                        {.ci = 1, .hi = 2, .wi = 7}};

const hd_geom hd__samples_loss[11] = {
    {.ci = 1, .cross_entropy = {.ignore_index = -100}, .huber = {.delta = 1}},
    {.ci = 2, .cross_entropy = {.ignore_index = -100}, .huber = {.delta = 0.5f}},
    {.ci = 10, .cross_entropy = {.ignore_index = -100}, .huber = {.delta = 1}},
    {.ci = 16, .cross_entropy = {.ignore_index = -100, .label_smoothing = 0.1f}, .huber = {.delta = 0.25f}},
    {.ci = 17, .cross_entropy = {.ignore_index = -100}, .huber = {.delta = 1.5f}},
    {.ci = 40, .cross_entropy = {.ignore_index = 3, .label_smoothing = 0.3f}, .huber = {.delta = 0.1f}},
    {.ci = 4, .cross_entropy = {.ignore_index = 2}, .huber = {.delta = 100}},
    {.ci = 5, .cross_entropy = {.label_smoothing = 1}, .huber = {.delta = 1}},
    {.ci = 33, .cross_entropy = {.ignore_index = 7}, .huber = {.delta = 1}},
    {.ci = 1, .cross_entropy = {.label_smoothing = 0.1f}, .huber = {.delta = 1}},
    {.ci = 12, .cross_entropy = {.ignore_index = -100, .label_smoothing = 0.5f}, .huber = {.delta = 1}}};
