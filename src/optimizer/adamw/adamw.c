/* The rule of adamw. */
#include "optimizer/optimizer.h"

const hd_optimizer_rule hd__optimizer_adamw = {
    HD_OPTIMIZER(adamw),
    .settings = {{HD_SET_lr, NULL}, {HD_SET_betas, NULL}, {HD_SET_eps, NULL}, {HD_SET_weight_decay, "0.01"}},
    .states = {{"exp_avg", 0}, {"exp_avg_sq", 0}},
    .scalars = hd__scalars_moments,
};
