/* The definition of an optimizer except for its chain: settings, states of a parameter, the scalars of a step. Each
 * folder NAME/ has one descriptor, hd__optimizer_NAME in NAME.c, beside the chain in NAME.h and, for speed, its vector
 * kernel in NAME_cpu.c; a row of kernel/optimizers.def adds it to the table. Plans, checkpoints, options, the manual
 * and the tests ask the rule; nothing else names an optimizer. */
#pragma once

#include <stdint.h>

#include "kernel/kernel.h"
#include "optimizer/update_settings.h"

/* A setting that it takes, and its default where that is not the row's. */
typedef struct hd_optimizer_setting {
  hd_update_value value;
  const char *standard; /* NULL: the row's */
} hd_optimizer_setting;

/* Floats for each element of a parameter, +0 at first. */
typedef struct hd_optimizer_state {
  const char *name;        /* in checkpoints, as PyTorch's */
  hd_update_value kept_if; /* it is kept only if this setting is above 0; 0: always */
} hd_optimizer_state;

/* The step whose scalars are wanted. */
typedef struct hd_update_step {
  const struct hd_schedule *schedule;
  const double *value; /* of all settings, by hd_update_value */
  int64_t step;        /* from 0 */
  double lr;           /* of the step */
  double momentum;     /* of the step: momentum, or the first of betas */
  double (*momentum_at)(const struct hd_schedule *schedule, int64_t step); /* NULL: that of all steps is the same */
} hd_update_step;

enum { HD_OPTIMIZER_SETTINGS = 8, HD_OPTIMIZERS_BYTES = 160 };

typedef struct hd_optimizer_rule {
  const char *name;
  hd_op op;                                             /* its kernel */
  hd_optimizer_setting settings[HD_OPTIMIZER_SETTINGS]; /* up to one of value 0 */
  hd_optimizer_state states[HD_MAX_STATES];             /* s[0] ... of its kernel, up to one without a name */
  bool matrices; /* its kernel leaves a direction in w1, which the phases of matrices make orthogonal and apply */
  void (*scalars)(hd_hyper *out, const hd_update_step *at); /* beside those of all optimizers: see schedule.c */
} hd_optimizer_rule;

#define HD_OPTIMIZER(id) .name = #id, .op = HD_OP_##id

/* The rule at a place of the choices of --optimizer, NULL behind the last; that of a kernel; that of settings. */
const hd_optimizer_rule *hd__optimizer_at(int choice);
const hd_optimizer_rule *hd__optimizer_of_op(hd_op op);
const hd_optimizer_rule *hd__optimizer_of(const hd_update_settings *settings);

/* The setting as the rule takes it; NULL: it does not. */
const hd_optimizer_setting *hd__optimizer_takes(const hd_optimizer_rule *rule, hd_update_value setting);

/* How many optimizers take a setting, 0: it is none of theirs; whether some take it and some do not; and which do, with
 * `last` before the last one: "sgd or muon". */
int hd__optimizers_with(hd_update_value setting);
bool hd__optimizers_are_some(hd_update_value setting);
const char *hd__optimizers_list(char *text, size_t bytes, hd_update_value setting, const char *last);

/* The default of a setting, as text. */
const char *hd__optimizer_standard(const hd_optimizer_rule *rule, const hd_update_setting *setting);

/* Settings of a later rule: if it gives an optimizer, what earlier rules gave that only some optimizers take, which was
 * another one's, is not given any more. */
void hd__optimizer_follow(hd_update_settings *settings, const hd_update_settings *later);

/* Gives what is not given its default, but for the epochs. */
void hd__optimizer_complete(hd_update_settings *settings);

/* The states that it keeps with these settings, a bit each. */
uint32_t hd__optimizer_kept(const hd_optimizer_rule *rule, const hd_update_settings *settings);

/* Whether the optimizer of this kernel has these states. */
bool hd__optimizer_may_keep(hd_op op, uint32_t kept);

/* ---- Scalars that several have ---- */

/* momentum and nesterov */
void hd__scalars_momentum(hd_hyper *out, const hd_update_step *at);
/* Of two moments, with their bias corrections. */
void hd__scalars_moments(hd_hyper *out, const hd_update_step *at);
