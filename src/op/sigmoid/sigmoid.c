/* sigmoid: y = 1 / (1 + exp(-x)). The gradient reads y. */
#include "op/op.h"

const hd_op_rule hd__rule_sigmoid = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.Sigmoid",
    .shapes = hd__shapes_same,
    .elementwise = true,
    .in_place = true,
    HD_SAMPLES(hd__samples_each),
    .dx = {HD_OP_sigmoid_dx, {HD_ARG_DY, HD_ARG_Y}},
    .flops = {3, 3},
};
