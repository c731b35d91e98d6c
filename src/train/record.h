/* run.json: everything that made a run what it is, and what a resumed one compares itself with. */
#ifndef HD_TRAIN_RECORD_H
#define HD_TRAIN_RECORD_H

#include <jansson.h>

#include "data/dataset.h"
#include "train/config.h"
#include "train/network.h"

/* The record of a run that starts; the caller owns it. `shards` is what was chosen. */
hd_status hd__record_make(json_t **out, hd_ctx *ctx, const hd_config *config, const hd_network *network,
                          const hd_data *data, int32_t shards, int threads);

/* What computes: machine.device and machine.isa. */
hd_status hd__record_note_device(json_t *record, hd_ctx *ctx, const char *device, const char *isa);

/* Takes the experiment from a record into `config`; what the user gave must agree, except what may differ. */
hd_status hd__record_adopt(hd_config *config, hd_ctx *ctx, const json_t *record, const char *folder);

/* The data must be the one the run was trained on: compares checksums. */
hd_status hd__record_check_data(hd_ctx *ctx, const json_t *record, const hd_data *data, const char *folder);

/* The library of --arithmetic native must be the one the run was trained with, core type included; "" for none. */
hd_status hd__record_check_library(hd_ctx *ctx, const json_t *record, const char *library, const char *folder);
hd_status hd__record_note_library(json_t *record, hd_ctx *ctx, const char *library);

/* How many samples could not be read and are skipped: top-level "skipped". */
hd_status hd__record_note_skips(json_t *record, hd_ctx *ctx, const hd_data *data);

/* A setting as recorded, "" for none. */
const char *hd__record_setting(const json_t *record, hd_option_id id);

#endif
