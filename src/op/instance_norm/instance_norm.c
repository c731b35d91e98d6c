/* instance_norm: y = (x - mean) / sqrt(var + eps) * weight + bias, with mean and variance of each channel of a sample,
 * as PyTorch's InstanceNorm2d(affine=True); the gradients are those of group_norm. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_EPS_SETTING, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  char text[HD_SHAPE_TEXT_BYTES];
  if (s->x[0].rank != 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': instance_norm expects an image (channels x height x width), found %s; put it before "
                    "flatten",
                    s->layer, hd__shape_text(text, sizeof text, &s->x[0]));
  HD_TRY(hd__shapes_channel_norm(s, true));
  s->geom.norm.groups = s->geom.ci;
  return HD_OK;
}

const hd_op_rule hd__rule_instance_norm = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.InstanceNorm2d(affine=True)",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_group_norm_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X}},
    .dw = {HD_OP_group_norm_dw, {HD_ARG_X, HD_ARG_DY}},
    .flops = {8, 14, 9},
    HD_SAMPLES(hd__samples_instance_norm),
};
