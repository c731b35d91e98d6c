/* The rule of adamw. */
#include "optimizer/optimizer.h"

const hd_optimizer_rule hd__optimizer_adamw = {
    HD_OPTIMIZER(adamw),
    .settings = {{HD_SET_lr}, {HD_SET_betas}, {HD_SET_eps}, {HD_SET_weight_decay, "0.01"}},
    .states = {{"exp_avg"}, {"exp_avg_sq"}},
    .scalars = hd__scalars_moments,
};
