/* conv2d: a convolution over images, with optional groups of channels, and with a max pool and a ReLU if a pass has
 * fused them; and its gradients.
 *
 * y = pool(b + sum over ky, kx, ci of x * w). The order of the gradients' sums follows the windows of the pool, so
 * the pool is part of the operation: without one a window is one pixel. */
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_CONV_SETTINGS,
    HD_SETTING("padding", SIDES, padding, .low = 0, .high = 1024, .help = "zeros added at each edge"),
    HD_BIAS_SETTINGS,
    HD_SETTING("init", CHOICE, init, .choices = {"uniform", "whiten", "dirac"},
               .help = "initial weights: random; computed from the samples; outputs that copy inputs"),
    HD_SETTING("init_samples", INT, init_samples, .low = 1, .high = 1 << 20, .default_value = 5000,
               .help = "whiten: number of training samples to use, evenly spaced"),
    HD_SETTING("init_eps", REAL, init_eps, .low = 1e-9, .high = 1e6, .default_value = 5e-4,
               .help = "whiten: added to each eigenvalue"),
    HD_SETTINGS_END};

/* Filters that whiten patches are the eigenvectors of their second moments, and the negatives of these. */
static hd_status check_whitening(const hd_op_shapes *s) {
  const hd_geom *g = &s->geom;
  const int64_t size = (int64_t)g->ci * g->window.kh * g->window.kw;
  if (g->conv.groups > 1)
    return hd__fail(s->ctx, HD_E_SHAPE, "layer '%s': 'init: whiten' expects one group, found %d; leave 'groups' out",
                    s->layer, g->conv.groups);
  if (size > HD_WHITEN_MOST)
    return hd__fail(
        s->ctx, HD_E_SHAPE,
        "layer '%s': 'init: whiten' expects patches of at most %d numbers, found %d x %d x %d; use a smaller "
        "kernel",
        s->layer, HD_WHITEN_MOST, g->ci, g->window.kh, g->window.kw);
  const int high = g->window.dilation[0] * (g->window.kh - 1) + 1,
            wide = g->window.dilation[1] * (g->window.kw - 1) + 1;
  if (high > g->hi || wide > g->wi)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': 'init: whiten' expects a kernel within the image, found %d x %d for %d x %d; use a "
                    "smaller kernel",
                    s->layer, high, wide, g->hi, g->wi);
  if (g->co <= 2 * size)
    return HD_OK;
  return hd__fail(
      s->ctx, HD_E_SHAPE,
      "layer '%s': 'init: whiten' expects at most %lld outputs, twice the numbers of a patch, found %d; use "
      "fewer",
      s->layer, 2 * (long long)size, g->co);
}

static hd_status shapes(hd_op_shapes *s) {
  HD_TRY(hd__shapes_conv(s));
  const hd_geom *g = &s->geom;
  char text[HD_SHAPE_TEXT_BYTES];
  if (!hd__geom_finish(&s->geom))
    return hd__fail(
        s->ctx, HD_E_SHAPE,
        "layer '%s': a %dx%d kernel expects an input at least that large, found %s with padding %d, %d; use a "
        "smaller kernel or more padding",
        s->layer, g->window.dilation[0] * (g->window.kh - 1) + 1, g->window.dilation[1] * (g->window.kw - 1) + 1,
        hd__shape_text(text, sizeof text, &s->x[0]), g->window.ph, g->window.pw);
  s->y = (hd_shape){3, {g->co, g->ho, g->wo}};
  HD_TRY(hd__shapes_conv_params(s, &(hd_shape){4, {g->co, g->ci / g->conv.groups, g->window.kh, g->window.kw}}));
  s->param[0].init = (hd_init)s->attrs->init;
  if (s->attrs->pointwise)
    s->param[0].shape.rank = 2;
  return s->param[0].init == HD_INIT_WHITEN ? check_whitening(s) : HD_OK;
}

static int64_t macs(const hd_geom *g) {
  return (int64_t)g->co * g->ho * g->wo * (g->ci / g->conv.groups) * g->window.kh * g->window.kw;
}
static int64_t flops(const hd_geom *g, hd_op_role role) { return 2 * macs(g); }

static const hd_geom samples[] = {
    {.ci = 1, .co = 1},
    {.ci = 1, .hi = 8, .wi = 8, .co = 4, .window = {.kh = 3, .kw = 3}, .conv = {.pool = 2}, .relu = 1},
    {.ci = 3, .hi = 7, .wi = 6, .co = 5, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1}},
    {.ci = 17, .hi = 5, .wi = 5, .co = 18, .window = {.kh = 3, .kw = 2, .sh = 2, .pw = 1}, .relu = 1},
    {.ci = 4, .hi = 9, .wi = 9, .co = 19, .window = {.kh = 2, .kw = 2}, .conv = {.pool = 3}},
    {.ci = 6, .hi = 6, .wi = 5, .co = 4, .window = {.kh = 3, .kw = 3, .sw = 2, .ph = 1}, .conv = {.groups = 2}},
    {.ci = 5,
     .hi = 7,
     .wi = 7,
     .co = 5,
     .window = {.kh = 3, .kw = 3, .sh = 2, .pw = 1},
     .conv = {.groups = 5},
     .relu = 1},
    {.ci = 3, .hi = 4, .wi = 5, .co = 6, .window = {.kh = 2, .kw = 3, .ph = 1}, .conv = {.groups = 3}},
    {.ci = 1, .hi = 7, .wi = 6, .co = 35, .window = {.kh = 2, .kw = 2, .ph = 1}, .conv = {.pool = 3}},
    {.ci = 2, .hi = 5, .wi = 4, .co = 3, .conv = {.pool = 2}},
    {.ci = 16, .hi = 7, .wi = 6, .co = 18, .window = {.kh = 3, .kw = 3}, .conv = {.pool = 2}, .relu = 1},
    {.ci = 17, .hi = 4, .wi = 5, .co = 16, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 2}},
    {.ci = 16, .co = 35, .window = {.kh = 3, .kw = 3, .ph = 3, .pw = 1}},
    {.ci = 16, .hi = 6, .wi = 8, .co = 16, .window = {.kh = 5, .kw = 5}, .conv = {.pool = 2}, .relu = 1},
    {.ci = 17, .hi = 3, .wi = 4, .co = 16, .window = {.kh = 5, .kw = 5, .ph = 2, .pw = 1}},
    {.ci = 32, .hi = 4, .wi = 3, .co = 34, .window = {.kh = 3, .kw = 3, .ph = 1}, .conv = {.groups = 2}},
    {.ci = 16, .hi = 9, .wi = 8, .co = 17, .window = {.kh = 3, .kw = 3, .ph = 2, .pw = 1, .dilation = {2, 1}}},
    {.ci = 6,
     .hi = 7,
     .wi = 11,
     .co = 4,
     .window = {.kh = 2, .kw = 3, .sh = 2, .pw = 3, .dilation = {3, 4}},
     .conv = {.groups = 2},
     .relu = 1},
    {.ci = 3,
     .hi = 9,
     .wi = 9,
     .co = 5,
     .window = {.kh = 3, .kw = 3, .ph = 2, .pw = 2, .dilation = {2, 2}},
     .conv = {.pool = 2},
     .relu = 1},
    {.ci = 2,
     .hi = 11,
     .wi = 10,
     .co = 3,
     .window = {.kh = 5, .kw = 5, .sh = 2, .sw = 2, .ph = 2, .pw = 2},
     .conv = {.pool = 2}},
};

const hd_op_rule hd__rule_conv2d = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.Conv2d",
    .settings = settings,
    .shapes = shapes,
    .places = HD_PLACES_SAME,
    .dx = {HD_OP_conv2d_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_OUT1}},
    .dw = {HD_OP_conv2d_dw, {HD_ARG_X, HD_ARG_DY, HD_ARG_OUT1}},
    .macs = macs,
    .flops_of = flops,
    HD_SAMPLES(samples),
};
