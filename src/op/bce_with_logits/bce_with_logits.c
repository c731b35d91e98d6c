/* bce_with_logits: a loss, binary cross-entropy of scores and as many targets from 0 to 1. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("pos_weight", WEIGHTS, bias, .low = 0, .high = 1e6,
                                                    .help = "weight of target 1: a number, or one per output"),
                                         HD_SETTINGS_END};

const hd_op_rule hd__rule_bce_with_logits = {
    HD_LOSS(bce_with_logits),
    .flops = {12, 9}, /* including an exponential and a logarithm */
    .torch = "nn.BCEWithLogitsLoss",
    .settings = settings,
};
