/* swish: y = x * sigmoid(x). The gradient reads x. */
#include "op/op.h"

const hd_op_rule hd__rule_swish = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.SiLU",
    .shapes = hd__shapes_same,
    .elementwise = true,
    .in_place = true,
    HD_SAMPLES(hd__samples_each),
    .dx = {HD_OP_swish_dx, {HD_ARG_DY, HD_ARG_X}},
    .flops = {4, 8},
};
