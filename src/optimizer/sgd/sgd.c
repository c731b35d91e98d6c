/* The rule of sgd. */
#include "optimizer/optimizer.h"

const hd_optimizer_rule hd__optimizer_sgd = {
    HD_OPTIMIZER(sgd),
    .settings = {{HD_SET_lr, NULL}, {HD_SET_momentum, NULL}, {HD_SET_nesterov, NULL}, {HD_SET_weight_decay, NULL}},
    .states = {{"momentum_buffer", .kept_if = HD_SET_momentum}},
    .scalars = hd__scalars_momentum,
};
