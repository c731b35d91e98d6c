/* bce_with_logits: a loss, binary cross-entropy of scores and as many targets from 0 to 1. */
#include "op/op.h"

const hd_op_rule hd__rule_bce_with_logits = {
    HD_LOSS(bce_with_logits),
    .flops = {12, 9}, /* including an exponential and a logarithm */
    .weights = "pos_weight",
};
