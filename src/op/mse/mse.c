/* mse: a loss, the squared differences of outputs and as many target numbers. */
#include "op/op.h"

const hd_op_rule hd__rule_mse = {
    HD_LOSS(mse),
    .torch = "nn.MSELoss",
    .flops = {3, 3},
};
