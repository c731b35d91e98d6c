/* mish: y = x * tanh(softplus(x)); Misra, 2019. The gradient reads x. */
#include "op/op.h"

const hd_op_rule hd__rule_mish = {
    HD_ELEMENTWISE(mish, HD_ARG_X),
    .torch = "nn.Mish",
    .flops = {7, 12},
    HD_SAMPLES(hd__samples_each),
};
