/* swish: y = x * sigmoid(x). The gradient reads x. */
#include "op/op.h"

const hd_op_rule hd__rule_swish = {
    HD_ELEMENTWISE(swish, HD_ARG_X),
    .torch = "nn.SiLU",
    .flops = {4, 8},
    HD_SAMPLES(hd__samples_each),
};
