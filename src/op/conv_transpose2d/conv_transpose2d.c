/* conv_transpose2d: the transposed convolution over images, with optional groups of channels, as PyTorch's
 * ConvTranspose2d; Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016, chapter 4.
 *
 * Along an axis an output has (input - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 pixels.
 * The weight is ci x co / groups x kernel. */
#include <limits.h>

#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_CONV_SETTINGS,
    HD_SETTING("padding", SIDES, padding, .low = 0, .high = 1024, .help = "pixels cut off at each edge of the output"),
    HD_SETTING("output_padding", SIDES, output_padding, .low = 0, .high = 1023,
               .help = "pixels added below and to the right; less than stride or dilation"),
    HD_BIAS_SETTINGS, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  HD_TRY(hd__shapes_conv(s));
  hd_geom *g = &s->geom;
  const int32_t *more = s->attrs->output_padding;
  char text[HD_SHAPE_TEXT_BYTES];
  for (int axis = 0; axis < 2; axis++)
    if (more[axis] >= (axis ? g->window.sw : g->window.sh) && more[axis] >= g->window.dilation[axis])
      return hd__fail(s->ctx, HD_E_SHAPE,
                      "layer '%s': %s expects output_padding less than stride or dilation, found %d; use less",
                      s->layer, s->op, more[axis]);
  g->window.transposed = 1;
  g->conv_transpose2d.output_padding[0] = more[0];
  g->conv_transpose2d.output_padding[1] = more[1];
  if (!hd__geom_finish(g) || (int64_t)g->ho * g->wo > INT_MAX / 8 / g->co)
    return hd__fail(
        s->ctx, HD_E_SHAPE,
        "layer '%s': %s expects an output of 1 to %d numbers, found an input of %s with padding %d, %d; change "
        "padding, stride or channels",
        s->layer, s->op, INT_MAX / 8, hd__shape_text(text, sizeof text, &s->x[0]), g->window.ph, g->window.pw);
  s->y = (hd_shape){3, {g->co, g->ho, g->wo}};
  return hd__shapes_conv_params(s, &(hd_shape){4, {g->ci, g->co / g->conv.groups, g->window.kh, g->window.kw}});
}

static int64_t macs(const hd_geom *g) {
  return (int64_t)g->ci * g->hi * g->wi * (g->co / g->conv.groups) * g->window.kh * g->window.kw;
}
static int64_t flops(const hd_geom *g, hd_op_role role) { return 2 * macs(g); }

static const hd_geom samples[] = {
    {.ci = 1, .co = 1, .window = {.transposed = 1}},
    {.ci = 3, .hi = 4, .wi = 5, .co = 5, .window = {.kh = 3, .kw = 3, .ph = 1, .pw = 1, .transposed = 1}},
    {.ci = 17, .hi = 3, .wi = 4, .co = 4, .window = {.kh = 2, .kw = 3, .sh = 2, .sw = 2, .transposed = 1}},
    {.ci = 4,
     .hi = 3,
     .wi = 3,
     .co = 6,
     .window = {.kh = 3, .kw = 2, .sh = 3, .sw = 2, .ph = 1, .transposed = 1},
     .conv = {.groups = 2},
     .conv_transpose2d = {.output_padding = {2, 1}}},
    {.ci = 2,
     .hi = 4,
     .wi = 3,
     .co = 18,
     .window = {.kh = 3, .kw = 2, .sw = 2, .pw = 1, .dilation = {2, 3}, .transposed = 1},
     .conv_transpose2d = {.output_padding = {1, 2}}},
    {.ci = 5,
     .hi = 2,
     .wi = 6,
     .co = 5,
     .window = {.kh = 2, .kw = 2, .sh = 3, .dilation = {1, 2}, .transposed = 1},
     .conv = {.groups = 5}}};

const hd_op_rule hd__rule_conv_transpose2d = {
    .fewest = 1,
    .most = 1,
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_conv_transpose2d_dx, {HD_ARG_DY, HD_ARG_W}},
    .dw = {HD_OP_conv_transpose2d_dw, {HD_ARG_X, HD_ARG_DY}},
    .macs = macs,
    .flops_of = flops,
    .torch = "nn.ConvTranspose2d",
    HD_SAMPLES(samples),
};
