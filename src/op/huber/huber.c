/* huber: a loss, mse for small differences and l1 for large ones. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("delta", REAL, delta, .low = 1e-6, .high = 1e6, .default_value = 1,
                                                    .help = "the difference where the square becomes a line"),
                                         HD_SETTINGS_END};

const hd_op_rule hd__rule_huber = {
    .loss = true,
    .shapes = hd__shapes_loss,
    .dx = {HD_OP_huber_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}}, /* scores, target, weights */
    .flops = {5, 4},
    .torch = "nn.HuberLoss",
    .settings = settings,
    HD_SAMPLES(hd__samples_loss),
};
