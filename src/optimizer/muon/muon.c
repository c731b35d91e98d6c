/* The rule of muon. */
#include "optimizer/optimizer.h"

static void scalars(hd_hyper *out, const hd_update_step *at) {
  hd__scalars_momentum(out, at);
  out->normalize_weight = at->value[HD_SET_normalize_weight] > 0;
}

const hd_optimizer_rule hd__optimizer_muon = {
    HD_OPTIMIZER(muon),
    .settings = {{HD_SET_lr},
                 {HD_SET_momentum},
                 {HD_SET_nesterov},
                 {HD_SET_weight_decay},
                 {HD_SET_ns_steps},
                 {HD_SET_normalize_weight},
                 {HD_SET_adjust_lr}},
    .states = {{"exp_avg"}},
    .matrices = true,
    .scalars = scalars,
};
