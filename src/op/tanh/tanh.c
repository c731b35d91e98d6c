/* tanh: the gradient reads y. */
#include "op/op.h"

const hd_op_rule hd__rule_tanh = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.Tanh",
    .shapes = hd__shapes_same,
    .elementwise = true,
    .in_place = true,
    HD_SAMPLES(hd__samples_each),
    .dx = {HD_OP_tanh_dx, {HD_ARG_DY, HD_ARG_Y}},
    .flops = {1, 3},
};
