/* rms_norm: y = x / sqrt(mean of x * x + eps) * weight over a flat value, or over the channels of each pixel, with a
 * weight for each channel, as PyTorch's RMSNorm of the last dimension. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("eps", REAL, eps, HD_TO_GEOM(norm.eps), .low = 0, .high = 1,
                                                    .default_value = 1.1920929e-7,
                                                    .help = "added to the mean of squares"),
                                         HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) { return hd__shapes_channel_norm(s, false); }

const hd_op_rule hd__rule_rms_norm = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.RMSNorm",
    .settings = settings,
    .shapes = shapes,
    .places = HD_PLACES_SAME,
    .dx = {HD_OP_rms_norm_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X}},
    .dw = {HD_OP_rms_norm_dw, {HD_ARG_X, HD_ARG_DY}},
    .flops = {4, 8, 5},
    HD_SAMPLES(hd__samples_channel_norm),
};
