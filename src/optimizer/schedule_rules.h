/* The definition of a schedule: its name, its settings, its formula. schedule_rules.c has one of each, hd__curve_NAME;
 * a row of schedules.def adds it to the table. */
#pragma once

#include <stdint.h>

#include "optimizer/update_settings.h"

enum { HD_CURVE_SETTINGS = 4 };

/* A curve, which begins behind the warm-up. */
typedef struct hd_curve {
  double lr;      /* the whole rate */
  double cycled;  /* the momentum or the first of betas, as given */
  int64_t length; /* steps: those of all epochs less the warm-up */
  int64_t every;  /* step_size in steps */
  int64_t top;    /* peak in steps: the first one with the whole rate */
  double gamma, start_factor, end_factor;
} hd_curve;

typedef struct hd_curve_rule {
  const char *name;
  hd_update_value settings[HD_CURVE_SETTINGS]; /* up to the first 0 */
  hd_update_value needs;                       /* has no default: must be given; 0: none */
  bool warms_up;                               /* by itself: --warmup is refused */
  bool cycles;                                 /* changes the momentum as well */
  void (*at)(double *lr, double *cycled, const hd_curve *curve, int64_t step);
} hd_curve_rule;

/* The rule at a place of the choices of --schedule, NULL behind the last. */
const hd_curve_rule *hd__curve_at(int choice);

bool hd__curve_takes(const hd_curve_rule *rule, hd_update_value setting);

/* The schedules that take a setting: "linear or triangular" with `last` " or "; "" if it is none of theirs. */
const char *hd__curves_list(char *text, size_t bytes, hd_update_value setting, const char *last);
