/* dropout2d: in training each channel of an image is zero with probability p, the others are divided by 1 - p; the
 * gradient draws the same mask again. In evaluation it is the identity, as dropout. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("p", REAL, p, HD_TO_GEOM(dropout.p), .low = 0, .high = 1,
                                                    .default_value = 0.5,
                                                    .help = "the probability that a channel becomes zero"),
                                         HD_SETTINGS_END};

const hd_op_rule hd__rule_dropout2d = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.Dropout2d",
    .settings = settings,
    .shapes = hd__shapes_image,
    .dx = {HD_OP_dropout2d_dx, {HD_ARG_DY}},
    .in_place = true,
    .flops = {1, 1},
    HD_SAMPLES(hd__samples_dropout),
};
