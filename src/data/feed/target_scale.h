/* The scale on which a regression is trained: each target with mean 0 and standard deviation 1 over the training set,
 * as columns of rows are. Losses are on this scale; predictions and scores of outputs are brought back to the file's.
 *
 *     scaled = (target - mean) / std       both of its output, in double; std is 1 where all targets are equal */
#pragma once

#include <jansson.h>

#include "data/dataset/dataset.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

typedef struct hd_target_scale {
  int32_t count; /* outputs; 0: targets are as in the file */
  double *mean;
  double *std; /* in the memory of mean */
} hd_target_scale;

void hd__target_scale_fini(hd_target_scale *scale);

/* Decides whether a network that was fitted to its data scales targets, measures, and sets --target-scale to the
 * choice. By default it scales numbers that a model with `input: data` predicts from rows normalised by columns.
 * HD_E_USAGE if scaling was requested and there are no numbers to predict. */
hd_status hd__target_scale_choose(hd_target_scale *out, hd_ctx *ctx, hd_config *config, const hd_network *network,
                                  const hd_dataset *data);

float hd__target_scaled(const hd_target_scale *scale, int32_t output, float target);
double hd__target_unscaled(const hd_target_scale *scale, int32_t output, double value);

/* In run.json, `targets` of `data`. A record without them has none. */
hd_status hd__target_scale_note(json_t *record, hd_ctx *ctx, const hd_target_scale *scale);
hd_status hd__target_scale_read(hd_target_scale *out, hd_ctx *ctx, const json_t *record, const char *folder);
