/* relu: y = x where x is positive, else 0. The gradient reads y, so that the memory of x can be reused. */
#include "op/op.h"

const hd_op_rule hd__rule_relu = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.ReLU",
    .shapes = hd__shapes_same,
    .elementwise = true,
    .in_place = true,
    HD_SAMPLES(hd__samples_each),
    .dx = {HD_OP_relu_dx, {HD_ARG_DY, HD_ARG_Y}},
    .flops = {1, 1},
};
