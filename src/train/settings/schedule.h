/* The learning rate of each step, and the scalars that an update needs; in double, with the functions of
 * base/hdmath.h. */
#pragma once

#include <stdint.h>

#include "graph/update_settings.h"
#include "kernel/kernel.h"
#include "train/settings/config.h"

typedef struct hd_schedule {
  hd_op op; /* the update operation */
  double lr, momentum, weight_decay, beta1, beta2, eps;
  int nesterov, normalize_weight;
  int curve;                       /* HD_SCHEDULE_... */
  double gamma;                    /* step: the factor, */
  int64_t every;                   /* and after how many steps each */
  double start_factor, end_factor; /* triangular; linear and triangular */
  int64_t top;                     /* triangular: the step of the curve with the whole rate */
  int64_t warmup;                  /* steps before the curve begins */
  int64_t length;                  /* steps of the curve: those of all epochs less the warm-up */
  int64_t end;                     /* the step from which on nothing is trained any more; INT64_MAX: never */
} hd_schedule;

/* The run's settings of the optimizer: those of a group unless its rules give others. */
void hd__schedule_settings(hd_update_settings *out, const hd_config *config);

/* The weight decay of an update where none is given. */
double hd__schedule_default_decay(hd_op op);

/* The schedule of a group of parameters with these settings. HD_E_USAGE if the warm-up leaves none of `steps`, the
 * steps of all epochs. */
hd_status hd__schedule_init(hd_schedule *out, hd_ctx *ctx, const hd_update_settings *settings, int64_t steps,
                            int64_t steps_per_epoch);

/* The steps of a number of epochs: the last epoch may be incomplete; at least one step. */
int64_t hd__schedule_steps(double epochs, int64_t steps_per_epoch);

/* Whether a cycle leaves a momentum of 0 as it is, where PyTorch's OneCycleLR cycles it by default. */
bool hd__schedule_keeps_momentum(const hd_schedule *schedule);

/* Learning rate and first beta (sgd: momentum) of step `step`, counted from 0. */
void hd__schedule_at(const hd_schedule *schedule, int64_t step, double *lr, double *beta1);

/* The scalars of step `step`, counted from 0. */
void hd__schedule_hyper(hd_hyper *out, const hd_schedule *schedule, int64_t step);
