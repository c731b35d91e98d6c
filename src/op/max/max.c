/* max: over the pixels of each channel, C x 1 x 1, or over the channels of each pixel, 1 x H x W. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("over", CHOICE, over, HD_TO_GEOM(line.channels),
                                                    .choices = {"pixels", "channels"},
                                                    .help = "what becomes one number"),
                                         HD_SETTINGS_END};

const hd_op_rule hd__rule_max = {
    .fewest = 1,
    .most = 1,
    .torch = "x.flatten(2).max(2).values, x.max(1, keepdim=True).values",
    .settings = settings,
    .shapes = hd__shapes_line,
    .dx = {HD_OP_max_dx, {HD_ARG_DY, HD_ARG_X}},
    .maximum = true,
    .flops = {1, 1},
    HD_SAMPLES(hd__samples_line),
};
