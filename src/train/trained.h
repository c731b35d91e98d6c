/* A checkpoint ready to run forward: its record, its network, its weights, lanes to run on. What evaluation and
 * prediction share; it knows no data set. */
#ifndef HD_TRAIN_TRAINED_H
#define HD_TRAIN_TRAINED_H

#include <jansson.h>

#include "cuda/cuda.h"
#include "data/dataset.h"
#include "exec/exec.h"
#include "train/augment.h"
#include "train/config.h"
#include "train/network.h"

typedef struct hd_trained {
  json_t *record;
  hd_network network;
  const hd_kernels *kernels;
  hd_lanes *lanes;
  hd_cuda *cuda; /* the GPU that computes; NULL: the lanes do */
  hd_plan *plan;
  hd_store *store;
  hd_exec *exec;
  int64_t fetch_bytes;                                          /* that it has for fetching */
  double mean[HD_DATA_MAX_CHANNELS], std[HD_DATA_MAX_CHANNELS]; /* of the data it was trained on */
} hd_trained;

/* Opens a run's folder or a step's. Of the configuration it uses `threads` and `device`. On failure nothing is left to
 * release, but hd__trained_fini may be called. */
hd_status hd__trained_open(hd_trained *out, hd_ctx *ctx, const char *checkpoint, const hd_config *config);
void hd__trained_fini(hd_trained *trained);

/* A feed of samples that go through what the run's evaluation had: its statistics, its transforms; in the executor
 * there is then room for them. */
hd_status hd__trained_feed(hd_feed *out, hd_ctx *ctx, hd_trained *trained, const hd_dataset *samples,
                           hd_pipeline_mode mode);

/* Opens the configuration's data, or the run's own if the configuration names none, and checks that it fits. */
hd_status hd__trained_data(hd_data **out, hd_ctx *ctx, hd_trained *trained, const hd_config *config);

#endif
