/* layer_norm2d: y = (x - mean) / sqrt(var + eps) * weight + bias over the channels of each pixel, with a weight and a
 * bias for each channel: torchvision's LayerNorm2d, a LayerNorm of the channels between two permutations. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_EPS_SETTING, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) { return hd__shapes_channel_norm(s, true); }

const hd_op_rule hd__rule_layer_norm2d = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.LayerNorm over channels last",
    .settings = settings,
    .shapes = shapes,
    .places = HD_PLACES_SAME,
    .dx = {HD_OP_layer_norm2d_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X}},
    .dw = {HD_OP_layer_norm2d_dw, {HD_ARG_X, HD_ARG_DY}},
    .flops = {8, 14, 9},
    HD_SAMPLES(hd__samples_channel_norm),
};
