/* l1: a loss, the absolute differences of outputs and as many target numbers. */
#include "op/op.h"

const hd_op_rule hd__rule_l1 = {
    .loss = true,
    .torch = "nn.L1Loss",
    .shapes = hd__shapes_loss,
    .dx = {HD_OP_l1_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}}, /* scores, target, weights */
    .flops = {2, 3},
    HD_SAMPLES(hd__samples_loss),
};
