/* The rule of nadam. */
#include "base/hdmath.h"
#include "optimizer/optimizer.h"

/* mu of step t, from 1, is beta1 (1 - q^t / 2). As for beta^t in Adam, a product is left alone where it no longer
 * changes 1 - product: after some hundred steps with the usual betas. */
static double product_of_mu(const hd_update_step *at, double q) {
  double product = 1, power = 1;
  for (int64_t step = 0; step <= at->step && product > 0x1p-60; step++) {
    power *= q;
    product *= (at->momentum_at ? at->momentum_at(at->schedule, step) : at->momentum) * (1 - power / 2);
  }
  return product;
}

/* Step sizes of the moment and of the gradient. A weight decay is added to the gradient, or multiplies the weight. */
static void scalars(hd_hyper *out, const hd_update_step *at) {
  const double log_q = at->value[HD_SET_momentum_decay] * hd__log(0.96), t = (double)at->step + 1;
  const double mu = at->momentum * (1 - hd__exp(t * log_q) / 2),
               next = at->momentum * (1 - hd__exp((t + 1) * log_q) / 2);
  const double product = product_of_mu(at, hd__exp(log_q));
  hd__scalars_moments(out, at);
  out->step_size = (float)(at->lr * next / (1 - product * next));
  out->gradient_step = (float)(at->lr * (1 - mu) / (1 - product));
  if (at->value[HD_SET_decoupled_weight_decay] > 0)
    out->weight_decay = 0;
  else
    out->decay_keep = 1;
}

const hd_optimizer_rule hd__optimizer_nadam = {
    HD_OPTIMIZER(nadam),
    .settings = {{HD_SET_lr, "0.002"},
                 {HD_SET_betas, NULL},
                 {HD_SET_eps, NULL},
                 {HD_SET_weight_decay, NULL},
                 {HD_SET_momentum_decay, NULL},
                 {HD_SET_decoupled_weight_decay, NULL}},
    .states = {{"exp_avg", 0}, {"exp_avg_sq", 0}},
    .scalars = scalars,
};
