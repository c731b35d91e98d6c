/* hardsigmoid: y = (x + 3) / 6 between 0 and 1. The gradient reads y. */
#include "op/op.h"

const hd_op_rule hd__rule_hardsigmoid = {
    HD_ELEMENTWISE(hardsigmoid, HD_ARG_Y), .torch = "nn.Hardsigmoid", .corners = hd__corners_hard, .flops = {4, 3},
    HD_SAMPLES(hd__samples_each),
};
