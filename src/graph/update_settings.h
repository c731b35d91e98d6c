/* The settings of an optimizer that rules for parameters may give (param_rules.h): one row each, with their possible
 * values. The run's options of the same names have the same values and apply where no rule gives one. */
#pragma once

#include <stdbool.h>

#include "base/yaml_bind.h"
#include "kernel/kernel.h"

/* The values that a setting has; betas are two. */
typedef enum hd_update_value {
  HD_SET_OPTIMIZER, /* a hd_update_optimizer */
  HD_SET_LR,
  HD_SET_MOMENTUM,
  HD_SET_NESTEROV,
  HD_SET_BETA1,
  HD_SET_BETA2,
  HD_SET_EPS,
  HD_SET_WEIGHT_DECAY,
  HD_SET_NS_STEPS,
  HD_SET_NORMALIZE_WEIGHT,
  HD_SET_ADJUST_LR, /* a hd_update_adjust */
  HD_SET_SCHEDULE,  /* a choice of --schedule */
  HD_SET_STEP_SIZE,
  HD_SET_GAMMA,
  HD_SET_WARMUP,
  HD_SET_START_FACTOR,
  HD_SET_END_FACTOR,
  HD_SET_PEAK,
  HD_SET_EPOCHS,
  HD_UPDATE_VALUES
} hd_update_value;

/* In the order of --optimizer's choices. */
typedef enum hd_update_optimizer { HD_UPDATE_SGD, HD_UPDATE_ADAM, HD_UPDATE_ADAMW, HD_UPDATE_MUON } hd_update_optimizer;

/* In the order of --adjust-lr's choices. */
typedef enum hd_update_adjust { HD_ADJUST_NONE, HD_ADJUST_ORIGINAL, HD_ADJUST_MATCH_RMS_ADAMW } hd_update_adjust;

/* NAN: not given. Choices are their places in the list, flags 0 or 1. */
typedef struct hd_update_settings {
  double value[HD_UPDATE_VALUES];
} hd_update_settings;

typedef enum hd_update_kind {
  HD_UPDATE_NUMBER,
  HD_UPDATE_COUNT,
  HD_UPDATE_FLAG,
  HD_UPDATE_CHOICE,
  HD_UPDATE_PAIR
} hd_update_kind;

/* A setting as rules name it. */
typedef struct hd_update_setting {
  const char *name; /* NULL behind the last */
  hd_update_kind kind;
  hd_update_value value; /* of a pair the first */
  double min, max;       /* of a pair: below max */
  const char *const *choices;
} hd_update_setting;

extern const hd_update_setting hd__update_settings[];

void hd__update_settings_clear(hd_update_settings *settings);

/* Reads one setting from a rule. HD_E_FORMAT names the file and line, what is expected and what was found. */
hd_status hd__update_settings_read(hd_update_settings *out, hd_ctx *ctx, const hd_update_setting *setting,
                                   const hd_yaml_node *node);

/* Settings that `over` gives replace those in `settings`. */
void hd__update_settings_overlay(hd_update_settings *settings, const hd_update_settings *over);

/* The same for a later rule. If it gives an optimizer, the momentum, nesterov, betas, eps and muon settings of earlier
 * rules belonged to another one and are dropped. */
void hd__update_settings_follow(hd_update_settings *settings, const hd_update_settings *later);

/* The update of settings that are all given, and how many states of a parameter it keeps. */
hd_op hd__update_settings_op(int *states, const hd_update_settings *settings);

const char *hd__update_optimizer_name(int optimizer);

bool hd__update_settings_equal(const hd_update_settings *a, const hd_update_settings *b);
