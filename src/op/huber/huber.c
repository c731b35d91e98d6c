/* huber: a loss, mse for small differences and l1 for large ones. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("delta", REAL, delta, HD_TO_GEOM(huber.delta), .low = 1e-6,
                                                    .high = 1e6, .default_value = 1,
                                                    .help = "the difference at which the square becomes a line"),
                                         HD_SETTINGS_END};

const hd_op_rule hd__rule_huber = {
    HD_LOSS(huber),
    .flops = {5, 4},
    .torch = "nn.HuberLoss",
    .settings = settings,
};
