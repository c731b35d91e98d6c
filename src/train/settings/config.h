/* The settings of a run inside the library: their values, where they came from, and what recipes and resumed runs
 * add. */
#pragma once

#include "base/tools_api.h"
#include "base/yaml_bind.h"
#include "data/dataset/dataset.h"
#include "heddle/custom_loss.h"
#include "optimizer/optimizer.h"
#include "platform/placement.h"
#include "train/settings/settings.h"

/* The option was set, by a call or by a file. */
HD_TOOLS_API bool hd__config_given(const hd_config *config, hd_option_id id);

/* The chosen optimizer and schedule read it. */
bool hd__config_applies(const hd_config *config, hd_option_id id);

/* It has a value: set or default. */
bool hd__config_has(const hd_config *config, hd_option_id id);

/* The values. The struct is valid as long as the configuration and current after each change of it; a text in it, until
 * that option is set again. */
HD_TOOLS_API const hd_settings *hd__settings(const hd_config *config);

/* The text of a value, "" for none: for messages and records alone. */
const char *hd__config_shown(const hd_config *config, hd_option_id id);
/* Both have the same value. */
bool hd__config_same(const hd_config *a, const hd_config *b, hd_option_id id);

/* The settings of the optimizer and the schedule: those of a group unless its rules give others. What is not given, or
 * what the run's optimizer does not take, is not given there. */
void hd__config_updates(hd_update_settings *out, const hd_config *config);

/* Where a value was read: "FILE:LINE", or "FILE:LINE,LINE,...", one line for each entry of a list; "" if no file gave
 * it. */
const char *hd__config_origin(const hd_config *config, hd_option_id id);
/* The request for the configured data set, with no label ignored. */
hd_dataset_request hd__config_data(const hd_config *config);
/* Whether data are read by the first rules (dataset.h), as a run's record has it. */
void hd__config_set_first_rules(hd_config *config, bool first);
/* The placement that the options threads, cpus, placement and workers request. Its list of CPUs is owned by the
 * configuration, valid until that changes. */
HD_TOOLS_API hd_placement_request hd__config_placement(const hd_config *config);

/* Sets the options that a mapping gives and that are not set already; `others`, which ends with NULL and may be NULL,
 * names entries that are no options. */
HD_TOOLS_API hd_status hd__config_take(hd_config *config, hd_ctx *ctx, const hd_yaml_node *root,
                                       const char *const *others);

/* Gives an option a value unless it is set already; for recipes and resumed runs. */
hd_status hd__config_suggest(hd_config *config, hd_ctx *ctx, hd_option_id id, const char *value);

/* HD_E_USAGE if an option is set that this data has no use for: of CSV files, of folders of pictures. */
hd_status hd__config_check_used(const hd_config *config, hd_ctx *ctx, const hd_dataset *data);

/* The loss and the metric of the program; NULL: there is none. */
const hd_custom_loss *hd__config_loss(const hd_config *config);
const hd_custom_loss *hd__config_metric(const hd_config *config);

/* Replaces an option's value, "auto" for example, by what was chosen. */
hd_status hd__config_settle(hd_config *config, hd_ctx *ctx, hd_option_id id, const char *value);

/* The description of the model that the option names, so that all runs of a configuration have the same one even if its
 * file is changed meanwhile; NULL: the file is read. */
HD_TOOLS_API hd_status hd__config_describe(hd_config *config, hd_ctx *ctx, const char *description);
const char *hd__config_description(const hd_config *config);

/* A configuration that ends with its scope. */
HD_RELEASER(hd__config_release, hd_config, hd_config_destroy)
#define HD_CONFIG_OWNED HD_RELEASED(hd__config_release) hd_config

/* A copy with texts of its own. No value is read again. */
HD_TOOLS_API hd_status hd__config_copy(hd_config **out, hd_ctx *ctx, const hd_config *config);

/* Checks that --no-shuffle and --sampler do not contradict each other. */
hd_status hd__config_check_order(const hd_config *config, hd_ctx *ctx);

/* Applies --recipe and checks what depends on several options: powers of two, options that contradict each other. */
HD_TOOLS_API hd_status hd__config_complete(hd_config *config, hd_ctx *ctx);
