/* l1: a loss, the absolute differences of outputs and as many target numbers. */
#include "op/op.h"

const hd_op_rule hd__rule_l1 = {
    HD_LOSS(l1),
    .torch = "nn.L1Loss",
    .flops = {2, 3},
};
