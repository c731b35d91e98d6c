/* The learning rate of each step, and the scalars that an update needs; in double, with heddle's own functions. */
#ifndef HD_TRAIN_SCHEDULE_H
#define HD_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "kernel/kernel.h"
#include "train/config.h"

typedef struct hd_schedule {
  hd_op op;   /* the update operation */
  int states; /* optimizer states per parameter */
  double lr, momentum, weight_decay, beta1, beta2, eps;
  int nesterov;
  int onecycle;
  int64_t length; /* steps of the whole schedule: epochs x steps per epoch */
} hd_schedule;

/* Reads the optimizer's settings. `length` as above. */
void hd__schedule_init(hd_schedule *out, const hd_config *config, int64_t length);

/* Learning rate and first beta (sgd: momentum) of step `step`, counted from 0. */
void hd__schedule_at(const hd_schedule *schedule, int64_t step, double *lr, double *beta1);

/* The scalars of step `step`, counted from 0. */
void hd__schedule_hyper(hd_hyper *out, const hd_schedule *schedule, int64_t step);

#endif
