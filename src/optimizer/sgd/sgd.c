/* The rule of sgd. */
#include "optimizer/optimizer.h"

const hd_optimizer_rule hd__optimizer_sgd = {
    HD_OPTIMIZER(sgd),
    .settings = {{HD_SET_lr}, {HD_SET_momentum}, {HD_SET_nesterov}, {HD_SET_weight_decay}},
    .states = {{"momentum_buffer", .kept_if = HD_SET_momentum}},
    .scalars = hd__scalars_momentum,
};
