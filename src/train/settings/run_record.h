/* run.json: everything that defines a run, with which a resumed run is compared. */
#pragma once

#include <jansson.h>

#include "base/tools_api.h"
#include "data/dataset/dataset.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

/* The record of a new run; the caller owns it. `shards` is the chosen number. */
hd_status hd__record_make(json_t **out, hd_ctx *ctx, const hd_config *config, const hd_network *network,
                          const hd_dataset *data, int32_t shards, int threads);

/* Adds the device that computes: machine.device and machine.isa. */
hd_status hd__record_note_device(json_t *record, hd_ctx *ctx, const char *device, const char *isa);

/* Takes the experiment from a record into `config`; values given by the user must agree, except those that may
 * differ. */
hd_status hd__record_adopt(hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder);

/* Makes a configuration read data by the rules of a record or a certificate; `folder` is for messages. */
hd_status hd__record_take_rules(hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder);

/* Checks that a run was made with the settings of a complete configuration, except the option `but` (-1: none) and the
 * model's name; the message names the first that differs. */
HD_TOOLS_API hd_status hd__record_check_settings(hd_ctx *ctx, const json_t *record, const hd_config *config, int but);

/* Checks that the data is the run's: compares checksums. A message begins with `option`, which is "--resume " or empty,
 * and the folder. */
hd_status hd__record_check_data(hd_ctx *ctx, const json_t *record, const hd_dataset *data, const char *option,
                                const char *folder);

/* The factor of learning rates that a program set (hd_session_set_lr): in the record, if it has one. */
hd_status hd__record_note_lr(json_t *record, hd_ctx *ctx, double scale);
bool hd__record_lr(double *scale, const json_t *record);

/* The names of the program's loss and metric (heddle/custom_loss.h). HD_E_USAGE: the configuration has others than the
 * run; `folder` is for messages. */
hd_status hd__record_note_functions(json_t *record, hd_ctx *ctx, const hd_config *config);
hd_status hd__record_check_functions(hd_ctx *ctx, const json_t *record, const hd_config *config, const char *folder);
hd_status hd__record_check_loss(hd_ctx *ctx, const json_t *record, const hd_config *config, const char *folder);

/* Whether these are the checksums of the run's data. */
HD_TOOLS_API bool hd__record_has_sums(const json_t *record, const uint64_t sum[HD_DATA_PARTS]);

/* Checks that the library of --arithmetic native is the run's, core type included; "" for none. */
hd_status hd__record_check_library(hd_ctx *ctx, const json_t *record, const char *library, const char *folder);
hd_status hd__record_note_library(json_t *record, hd_ctx *ctx, const char *library);

/* What the first layer adds to samples; where none is noted NAN. */
hd_status hd__record_note_shift(json_t *record, hd_ctx *ctx, float shift);
float hd__record_shift(const json_t *record);

/* The version of the arithmetic of earlier steps, where its numbers for this network are others; 0: there are none. */
hd_status hd__record_note_earlier_arithmetic(json_t *record, hd_ctx *ctx, int32_t version);
int32_t hd__record_earlier_arithmetic(const json_t *record);

/* Whether the data's samples are floats; else they are bytes, as in records older than this entry. */
bool hd__record_has_floats(const json_t *record);

/* Adds the number of samples that could not be read and are skipped: top-level "skipped". */
hd_status hd__record_note_skips(json_t *record, hd_ctx *ctx, const hd_dataset *data);

/* A text of an object, "" for none; a setting of a record or a certificate as text, "" for none. */
HD_TOOLS_API const char *hd__json_text(const json_t *object, const char *key);
/* The names of the run's classes, valid as long as the record; *count is 0 if it has none. The caller frees *out. */
hd_status hd__record_class_names(const char ***out, int32_t *count, hd_ctx *ctx, const json_t *record);

/* The colours of the classes in the masks of the run's data; none where they are grey. */
void hd__record_palette(hd_palette *out, const json_t *record);

/* The features of the run's table; none where it has none. The caller releases them, after a failure too. */
hd_status hd__record_features(hd_features *out, hd_ctx *ctx, const json_t *record, const char *folder);

const char *hd__record_setting(const json_t *record, hd_option_id id);

/* Whether an option says which samples a run has. */
HD_TOOLS_API bool hd__record_is_of_data(hd_option_id option);

/* The recorded choice of --device auto; NULL if the run named its device. */
const char *hd__record_chosen_device(const json_t *record);

/* What a forward pass needs of the run's settings: data, transforms, label smoothing. The caller owns *out. `folder`:
 * of the record, for messages. */
hd_status hd__record_config(hd_config **out, hd_ctx *ctx, const json_t *record, const char *folder);
