/* max_pool2d: the maximum of each window of an image, any window, stride and padding; and its gradient.
 *
 * Padding is never the maximum. Of equal values the first is chosen; a NaN is always chosen. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_POOL_SETTINGS, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  HD_TRY(hd__shapes_pool(s));
  const hd_geom *g = &s->geom;
  s->argmax = true;
  if (g->window.kh * g->window.kw <= 256)
    return HD_OK;
  return hd__fail(s->ctx, HD_E_SHAPE,
                  "layer '%s': max_pool2d expects a window of at most 256 positions, found %dx%d; use a smaller kernel",
                  s->layer, g->window.kh, g->window.kw);
}

/* A comparison for each position except the first. */
static int64_t flops(const hd_geom *g, hd_op_role role) {
  return (int64_t)g->co * g->ho * g->wo * (role == HD_ROLE_FORWARD ? g->window.kh * g->window.kw - 1 : 1);
}

static const hd_geom samples[] = {
    {.ci = 1},
    {.ci = 3, .hi = 7, .wi = 6, .window = {.kh = 2, .kw = 2, .sh = 2, .sw = 2}},
    {.ci = 17, .hi = 8, .wi = 9, .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1}},
    {.ci = 5, .hi = 6, .wi = 6, .window = {.kh = 3, .kw = 2, .sh = 1, .sw = 2, .pw = 1}},
    {.ci = 18, .hi = 6, .wi = 7, .window = {.kh = 3, .kw = 2, .sh = 2, .sw = 2, .ceil_mode = 1}},
    {.ci = 17, .hi = 2, .wi = 5, .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ceil_mode = 1}},
};

const hd_op_rule hd__rule_max_pool2d = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.MaxPool2d",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_max_pool2d_dx, {HD_ARG_DY, HD_ARG_OUT1}},
    .flops_of = flops,
    HD_SAMPLES(samples),
};
