/* The rule of adam. */
#include "optimizer/optimizer.h"

const hd_optimizer_rule hd__optimizer_adam = {
    HD_OPTIMIZER(adam),
    .settings = {{HD_SET_lr}, {HD_SET_betas}, {HD_SET_eps}, {HD_SET_weight_decay}},
    .states = {{"exp_avg"}, {"exp_avg_sq"}},
    .scalars = hd__scalars_moments,
};
