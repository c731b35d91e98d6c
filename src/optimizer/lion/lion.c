/* The rule of lion. */
#include "optimizer/optimizer.h"

const hd_optimizer_rule hd__optimizer_lion = {
    HD_OPTIMIZER(lion),
    .settings = {{HD_SET_lr, "0.0001"}, {HD_SET_betas, "0.9,0.99"}, {HD_SET_weight_decay, NULL}},
    .states = {{"exp_avg", 0}},
    .scalars = hd__scalars_moments,
};
