/* The settings of an optimizer that rules for parameters may give (graph/param_rules.h), with the values that each may
 * have. The run's options of the same names have the same values, and stand where no rule gives one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/yaml_bind.h"
#include "optimizer/setting_rows.h"

/* The values of all settings, HD_SET_NAME; a pair has a second one, HD_SET_betas_2. */
#define HD_SETS_REAL(id) HD_SET_##id,
#define HD_SETS_INT(id) HD_SET_##id,
#define HD_SETS_FLAG(id) HD_SET_##id,
#define HD_SETS_CHOICE(id) HD_SET_##id,
#define HD_SETS_PAIR(id) HD_SET_##id, HD_SET_##id##_2,
#define HD_SETS_OF(id, type, ...) HD_SETS_##type(id)
#define HD_SETS_ROW(id, ...) HD_SETS_OF(id, __VA_ARGS__)
#define HD_SETS(id) HD_SETS_ROW(id, HD_ROW_##id)
typedef enum hd_update_value { HD_SETTING_ROWS(HD_SETS) HD_UPDATE_VALUES } hd_update_value;

/* In the order of the choices of adjust_lr. */
typedef enum hd_update_adjust { HD_ADJUST_NONE, HD_ADJUST_ORIGINAL, HD_ADJUST_MATCH_RMS_ADAMW } hd_update_adjust;

/* NAN: not given. Choices are their places in the list, flags 0 or 1. */
typedef struct hd_update_settings {
  double value[HD_UPDATE_VALUES];
} hd_update_settings;

typedef enum hd_update_kind {
  HD_UPDATE_REAL,
  HD_UPDATE_INT,
  HD_UPDATE_FLAG,
  HD_UPDATE_CHOICE,
  HD_UPDATE_PAIR
} hd_update_kind;

/* A setting as rules name it. */
typedef struct hd_update_setting {
  const char *name; /* NULL behind the last */
  hd_update_kind kind;
  hd_update_value value; /* of a pair the first */
  const char *standard;  /* "": off, or none */
  double min, max;       /* of a pair: below max */
  const char *const *choices;
} hd_update_setting;

/* In the order of HD_SETTING_ROWS. */
extern const hd_update_setting hd__update_settings[];

/* The rows of optimizers.def and of schedules.def, NULL behind the last. */
extern const char *const hd__optimizer_names[], *const hd__schedule_names[];

void hd__update_settings_clear(hd_update_settings *settings);

/* Reads one setting from a rule. HD_E_FORMAT names the file and line, what is expected and what was found. */
hd_status hd__update_settings_read(hd_update_settings *out, hd_ctx *ctx, const hd_update_setting *setting,
                                   const hd_yaml_node *node);

/* Gives a setting the values of a text that a row or a rule has as its default. */
void hd__update_settings_parse(hd_update_settings *out, const hd_update_setting *setting, const char *text);

/* What is given in `over` replaces what is in `settings`. */
void hd__update_settings_overlay(hd_update_settings *settings, const hd_update_settings *over);

bool hd__update_settings_equal(const hd_update_settings *a, const hd_update_settings *b);
