/* The rule of adam. */
#include "optimizer/optimizer.h"

const hd_optimizer_rule hd__optimizer_adam = {
    HD_OPTIMIZER(adam),
    .settings = {{HD_SET_lr, NULL}, {HD_SET_betas, NULL}, {HD_SET_eps, NULL}, {HD_SET_weight_decay, NULL}},
    .states = {{"exp_avg", 0}, {"exp_avg_sq", 0}},
    .scalars = hd__scalars_moments,
};
