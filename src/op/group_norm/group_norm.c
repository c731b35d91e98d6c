/* group_norm: y = (x - mean) / sqrt(var + eps) * weight + bias, with mean and variance of a sample's group of channels,
 * as PyTorch's GroupNorm; Wu and He, "Group normalization", 2018. The gradients compute mean and variance again from
 * x. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("groups", INT, groups, HD_TO_GEOM(norm.groups), .low = 1,
                                                    .high = 1 << 20, .required = true,
                                                    .help = "groups of channels; a divisor of the channels"),
                                         HD_EPS_SETTING, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  char text[HD_SHAPE_TEXT_BYTES];
  const int32_t channels = s->x[0].dim[0], groups = s->attrs->groups;
  if (s->x[0].rank != 1 && s->x[0].rank != 3)
    return hd__fail(
        s->ctx, HD_E_SHAPE,
        "layer '%s': group_norm expects channels or channels x height x width, found %s; add a flatten before it",
        s->layer, hd__shape_text(text, sizeof text, &s->x[0]));
  if (s->order[0].rank == 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': group_norm expects an image, found a flattened one; put it before flatten", s->layer);
  if (channels % groups != 0)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': group_norm expects groups that divide its %d channels, found groups %d; use a divisor",
                    s->layer, channels, groups);
  const hd_shape shape = {1, {channels}}, in_memory = {4, {channels, 1, 1, 1}};
  hd__shapes_param(s, "weight", &shape, &in_memory)->init = HD_INIT_ONE;
  hd__shapes_param(s, "bias", &shape, &in_memory)->init = HD_INIT_ZERO;
  return hd__shapes_same(s);
}

static const hd_geom samples[] = {{.ci = 2, .norm = {.eps = 1e-5f}},
                                  {.ci = 16, .norm = {.groups = 4, .eps = 1e-5f}},
                                  {.ci = 6, .hi = 5, .wi = 4, .norm = {.groups = 2, .eps = 1e-5f}},
                                  {.ci = 34, .hi = 3, .wi = 3, .norm = {.groups = 2, .eps = 1e-5f}},
                                  {.ci = 40, .hi = 2, .wi = 7, .norm = {.groups = 5, .eps = 1e-5f}},
                                  {.ci = 3, .hi = 3, .wi = 6, .norm = {.groups = 3, .eps = 1e-5f}}};

const hd_op_rule hd__rule_group_norm = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.GroupNorm",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_group_norm_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X}},
    .dw = {HD_OP_group_norm_dw, {HD_ARG_X, HD_ARG_DY}},
    .flops = {8, 14, 9},
    HD_SAMPLES(samples),
};
