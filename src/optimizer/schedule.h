/* The learning rate of each step of a group of parameters, and the scalars that an update needs; in double, with the
 * functions of base/hdmath.h. */
#pragma once

#include "optimizer/optimizer.h"
#include "optimizer/schedule_rules.h"

typedef struct hd_schedule {
  const hd_optimizer_rule *optimizer;
  hd_update_settings settings; /* complete */
  const hd_curve_rule *rule;
  hd_curve curve;
  int64_t warmup; /* steps before the curve begins */
  int64_t first;  /* the step from which on something is trained: bias corrections count from there */
  int64_t end;    /* the step from which on nothing is trained any more; INT64_MAX: never */
} hd_schedule;

/* The schedule of a group of parameters with these settings; what is not given has its default. HD_E_USAGE if the
 * warm-up leaves none of `steps`, the steps of all epochs. */
hd_status hd__schedule_init(hd_schedule *out, hd_ctx *ctx, const hd_update_settings *settings, int64_t steps,
                            int64_t steps_per_epoch);

/* The steps of so many epochs: the last may be incomplete; at least one. */
int64_t hd__schedule_steps(double epochs, int64_t steps_per_epoch);

/* Whether a cycle leaves a momentum of 0 as it is, where PyTorch's OneCycleLR cycles it by default. */
bool hd__schedule_keeps_momentum(const hd_schedule *schedule);

/* Learning rate and momentum (or the first of betas) of step `step`, counted from 0. */
void hd__schedule_at(const hd_schedule *schedule, int64_t step, double *lr, double *momentum);

/* Multiplies the rates of all steps, those of the settings, by a factor. */
void hd__schedule_scale(hd_schedule *schedule, double factor);

/* The scalars of step `step`, counted from 0. */
void hd__schedule_hyper(hd_hyper *out, const hd_schedule *schedule, int64_t step);
