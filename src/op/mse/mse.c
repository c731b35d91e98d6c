/* mse: a loss, the squared differences of outputs and as many target numbers. */
#include "op/op.h"

const hd_op_rule hd__rule_mse = {
    HD_LOSS(mse),
    .flops = {3, 3},
};
