/* hardswish: y = x * hardsigmoid(x), 0 below -3 and x above 3. The gradient reads x. */
#include "op/op.h"

const hd_op_rule hd__rule_hardswish = {
    HD_ELEMENTWISE(hardswish, HD_ARG_X), .torch = "nn.Hardswish", .corners = hd__corners_hard, .flops = {5, 5},
    HD_SAMPLES(hd__samples_each),
};
