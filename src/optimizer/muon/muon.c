/* The rule of muon. */
#include "optimizer/optimizer.h"

static void scalars(hd_hyper *out, const hd_update_step *at) {
  hd__scalars_momentum(out, at);
  out->normalize_weight = at->value[HD_SET_normalize_weight] > 0;
}

const hd_optimizer_rule hd__optimizer_muon = {
    HD_OPTIMIZER(muon),
    .settings = {{HD_SET_lr, NULL},
                 {HD_SET_momentum, NULL},
                 {HD_SET_nesterov, NULL},
                 {HD_SET_weight_decay, NULL},
                 {HD_SET_ns_steps, NULL},
                 {HD_SET_normalize_weight, NULL},
                 {HD_SET_adjust_lr, NULL}},
    .states = {{"exp_avg", 0}},
    .matrices = true,
    .scalars = scalars,
};
