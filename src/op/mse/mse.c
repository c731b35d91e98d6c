/* mse: a loss, the squared differences of outputs and as many target numbers. */
#include "op/op.h"

const hd_op_rule hd__rule_mse = {
    .loss = true,
    .torch = "nn.MSELoss",
    .shapes = hd__shapes_loss,
    .dx = {HD_OP_mse_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}}, /* scores, target, weights */
    .flops = {3, 3},
    HD_SAMPLES(hd__samples_loss),
};
