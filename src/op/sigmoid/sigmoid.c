/* sigmoid: y = 1 / (1 + exp(-x)). The gradient reads y. */
#include "op/op.h"

const hd_op_rule hd__rule_sigmoid = {
    HD_ELEMENTWISE(sigmoid, HD_ARG_Y),
    .torch = "nn.Sigmoid",
    .flops = {3, 3},
    HD_SAMPLES(hd__samples_each),
};
