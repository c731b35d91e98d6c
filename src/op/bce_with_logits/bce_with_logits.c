/* bce_with_logits: a loss, binary cross-entropy of scores and as many targets from 0 to 1. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("pos_weight", WEIGHTS, bias, .low = 0, .high = 1e6,
                                                    .help = "the weight of target 1: a number, or one for each output"),
                                         HD_SETTINGS_END};

const hd_op_rule hd__rule_bce_with_logits = {
    .loss = true,
    .shapes = hd__shapes_loss,
    .dx = {HD_OP_bce_with_logits_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}}, /* scores, target, weights */
    .flops = {12, 9},                                                 /* including an exponential and a logarithm */
    .torch = "nn.BCEWithLogitsLoss",
    .settings = settings,
    HD_SAMPLES(hd__samples_loss),
};
