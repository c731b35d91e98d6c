/* A checkpoint ready to run forward: its record, network, weights, and threads. Shared by evaluation and prediction;
 * independent of a data set. */
#pragma once

#include <jansson.h>

#include "data/dataset/dataset.h"
#include "exec/executor.h"
#include "heddle/session.h"
#include "data/feed/feed_options.h"
#include "train/placement/device_open.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

typedef struct hd_trained {
  json_t *record;
  hd_config *run; /* the training settings that a forward pass needs */
  hd_network network;
  const hd_kernels *kernels;
  hd_threads *threads;
  hd_run_device device;
  hd_plan *plan;
  hd_store *store;
  hd_exec *exec;
  hd_tta_choice tta;                                            /* given, or the run's */
  int64_t fetch_bytes;                                          /* the executor's memory for fetching */
  double mean[HD_DATA_MAX_CHANNELS], std[HD_DATA_MAX_CHANNELS]; /* of the data it was trained on */
  const char **class_name; /* of the data it was trained on, `class_names` of them; NULL: without names */
  int32_t class_names;
  hd_features features;    /* of rows; none: samples are normalised by channels */
  hd_palette palette;      /* of the masks that it was trained on */
  hd_target_scale targets; /* of numbers that it predicts */
} hd_trained;

/* Opens a run's folder or a step's. Of the configuration it uses `threads`, `device` and `tta`. On failure nothing
 * is left to release, but hd__trained_fini may be called. */
hd_status hd__trained_open(hd_trained *out, hd_ctx *ctx, const char *checkpoint, const hd_config *config);
void hd__trained_fini(hd_trained *trained);

/* Whether rows are normalised by columns. */
bool hd__trained_reads_columns(const hd_trained *trained);

/* A feed of samples with the statistics and transforms of the run's evaluation; the executor then has room for them. */
hd_status hd__trained_feed(hd_feed *out, hd_ctx *ctx, hd_trained *trained, const hd_split *samples,
                           hd_pipeline_mode mode);

/* Evaluates all positions of such a feed, views of each sample if the run or the configuration says so; out->score
 * is not NULL. */
hd_status hd__trained_evaluate(const hd_exec_outcome *out, hd_ctx *ctx, hd_trained *trained, hd_feed *feed);

/* HD_E_SHAPE for bytes if the run was trained on floats, and for floats if it was trained on bytes, unless they are
 * pictures of pixels from 0 to 1. `name`: of the samples. */
hd_status hd__trained_check_kind(const hd_trained *trained, hd_ctx *ctx, const char *name, const hd_split *samples);

/* Whether pictures' bytes can stand for the numbers that the run was trained on: these may be from 0 to 1. */
bool hd__trained_may_read_pixels(const hd_trained *trained);

/* How other CSV files are read for the run: as its own were, except for what the configuration gives. */
hd_csv_options hd__trained_table(const hd_trained *trained, const hd_config *config);

/* Opens the configuration's data, or the run's data if the configuration names none, and checks that it fits. Its test
 * split is hd_evaluated's part of it. */
hd_status hd__trained_data(hd_dataset **out, hd_evaluated *part, hd_ctx *ctx, hd_trained *trained,
                           const hd_config *config);
