/* dropout: in training each element is zero with probability p, the others are divided by 1 - p; the gradient draws the
 * same mask again. In evaluation it is the identity: hd__pass_evaluation makes it a view. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("p", REAL, p, HD_TO_GEOM(dropout.p), .low = 0, .high = 1,
                                                    .default_value = 0.5,
                                                    .help = "the probability that an element becomes zero"),
                                         HD_SETTINGS_END};

const hd_op_rule hd__rule_dropout = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.Dropout",
    .settings = settings,
    .shapes = hd__shapes_same,
    .dx = {HD_OP_dropout_dx, {HD_ARG_DY}},
    .in_place = true,
    .flops = {1, 1},
    HD_SAMPLES(hd__samples_dropout),
};
