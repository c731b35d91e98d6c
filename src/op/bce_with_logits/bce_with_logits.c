/* bce_with_logits: a loss, binary cross-entropy of scores and as many targets from 0 to 1. */
#include "op/op.h"

const hd_op_rule hd__rule_bce_with_logits = {
    .loss = true,
    .shapes = hd__shapes_loss,
    .dx = {HD_OP_bce_with_logits_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}}, /* scores, target, weights */
    .flops = {12, 9},                                                 /* including an exponential and a logarithm */
    .weights = "pos_weight",
    HD_SAMPLES(hd__samples_loss),
};
