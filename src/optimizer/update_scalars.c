/* Scalars that several optimizers have; see optimizer.h. */
#include <math.h>

#include "base/hdmath.h"
#include "optimizer/optimizer.h"

void hd__scalars_momentum(hd_hyper *out, const hd_update_step *at) {
  out->momentum = (float)at->momentum;
  out->nesterov = at->value[HD_SET_nesterov] > 0;
}

void hd__scalars_moments(hd_hyper *out, const hd_update_step *at) {
  const double beta1 = at->momentum, beta2 = at->value[HD_SET_betas_2];
  const double bias1 = 1 - hd__pow_int(beta1, (uint64_t)at->step + 1);
  const double bias2 = 1 - hd__pow_int(beta2, (uint64_t)at->step + 1);
  out->beta2 = (float)beta2;
  out->one_minus_beta1 = (float)(1 - beta1);
  out->one_minus_beta2 = (float)(1 - beta2);
  out->eps = (float)at->value[HD_SET_eps];
  out->step_size = (float)(at->lr / bias1);
  out->sqrt_bias2 = (float)sqrt(bias2);
}
