/* The rule of rmsprop. */
#include "optimizer/optimizer.h"

static void scalars(hd_hyper *out, const hd_update_step *at) {
  const double alpha = at->value[HD_SET_alpha];
  hd__scalars_momentum(out, at);
  out->alpha = (float)alpha;
  out->one_minus_alpha = (float)(1 - alpha);
  out->eps = (float)at->value[HD_SET_eps];
  out->centered = at->value[HD_SET_centered] > 0;
}

const hd_optimizer_rule hd__optimizer_rmsprop = {
    HD_OPTIMIZER(rmsprop),
    .settings = {{HD_SET_lr, "0.01"},
                 {HD_SET_alpha, NULL},
                 {HD_SET_eps, NULL},
                 {HD_SET_weight_decay, NULL},
                 {HD_SET_momentum, NULL},
                 {HD_SET_centered, NULL}},
    .states = {{"square_avg", 0},
               {"momentum_buffer", .kept_if = HD_SET_momentum},
               {"grad_avg", .kept_if = HD_SET_centered}},
    .scalars = scalars,
};
