/* Reading settings inside the library: typed getters over the table in options.def. */
#ifndef HD_TRAIN_SETTINGS_CONFIG_H
#define HD_TRAIN_SETTINGS_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "data/formats/dataset.h"
#include "heddle/config.h"

typedef enum hd_option_id {
#define OPT(id, name, kind, type, fallback, min, max, choices, arg, help) HD_OPT_##id,
#include "train/settings/options.def"
#undef OPT
  HD_OPTION_COUNT
} hd_option_id;

/* The option was set, by a call or by a file. */
HD_TOOLS_API bool hd__config_given(const hd_config *config, hd_option_id id);

/* The chosen optimizer reads it. */
bool hd__config_applies(const hd_config *config, hd_option_id id);

/* It has a value: set or default. */
HD_TOOLS_API bool hd__config_has(const hd_config *config, hd_option_id id);

HD_TOOLS_API int64_t hd__config_int(const hd_config *config, hd_option_id id);
double hd__config_real(const hd_config *config, hd_option_id id);
bool hd__config_flag(const hd_config *config, hd_option_id id);
HD_TOOLS_API const char *hd__config_text(const hd_config *config, hd_option_id id); /* "" for none */
/* Where a list in YAML was read: "FILE:LINE,LINE,...", one line number per entry; "" for a list that was not. */
const char *hd__config_origin(const hd_config *config, hd_option_id id);
/* The request for the configured data set, with no label ignored. */
hd_data_request hd__config_data(const hd_config *config);
void hd__config_pair(const hd_config *config, hd_option_id id, double pair[2]);

/* Gives an option a value unless it is set already; for recipes and resumed runs. */
hd_status hd__config_suggest(hd_config *config, hd_ctx *ctx, hd_option_id id, const char *value);

HD_TOOLS_API hd_status hd__config_copy(hd_config **out, hd_ctx *ctx, const hd_config *config);

/* Checks that --no-shuffle and --sampler do not contradict each other. */
hd_status hd__config_check_order(const hd_config *config, hd_ctx *ctx);

/* Applies --recipe and checks what depends on several options: powers of two, options that contradict each other. */
hd_status hd__config_complete(hd_config *config, hd_ctx *ctx);

#endif
