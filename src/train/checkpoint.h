/* Checkpoints: a version of the weights and the optimizer on disk, and back.
 *
 *     RUN/run.json   RUN/metrics.jsonl   RUN/last -> step-500   RUN/best
 *     RUN/step-500/{model,state}.safetensors, run.json
 *
 * A checkpoint is written into a new folder, synced and renamed; only then do the links move and old ones go. Its
 * run.json holds the checksums of the two other files, so that a bit that flipped on the disk is noticed. Saving
 * takes a copy of the last whole version (its third place in memory) and writes it from a thread of its own while
 * training goes on. */
#ifndef HD_TRAIN_CHECKPOINT_H
#define HD_TRAIN_CHECKPOINT_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/safetensors.h"
#include "exec/store.h"
#include "sys/file.h"

/* What a resumed run must know beside the tensors. */
typedef struct hd_counters {
  int64_t step;          /* done */
  double epoch_loss_sum; /* of the epoch under way */
  double epoch_divisor;  /* what their mean divides by */
  double best_score;     /* of the checkpoint that `best` names, more is better, -infinity for none */
  int64_t stale_epochs;  /* since the epoch with the lowest loss, for --patience */
  double best_loss;      /* that loss, infinite before the first */
} hd_counters;

typedef struct hd_saver {
  hd_store *store;
  hd_op update; /* names the states */
  int keep;
  char run[HD_PATH_BYTES];
  float *copy;    /* weights and states of one version, home order */
  float *ordered; /* the same in file order */
  int64_t bytes;  /* of these two */
  hd_st_tensor *tensor;
  /* The job of the writer thread. */
  bool busy, is_best;
  pthread_t thread;
  hd_counters counters;
  json_t *record; /* what goes to run.json: a copy, to which the files' checksums are added */
  hd_ctx ctx;     /* the writer's own message */
  hd_status status;
} hd_saver;

/* Bytes of the copies that a saver keeps: one version in home order, one in file order. */
int64_t hd__saver_bytes(const hd_plan *plan, int states);

/* `run` is the run's folder, which exists. */
hd_status hd__saver_init(hd_saver *saver, hd_ctx *ctx, hd_store *store, hd_op update, const char *run, int keep);

/* Writes run.json into a folder: of a checkpoint, or of a run that starts. */
hd_status hd__checkpoint_announce(hd_ctx *ctx, const char *folder, json_t *record);

/* Waits for a save under way and releases everything. */
void hd__saver_fini(hd_saver *saver);

/* Copies the last whole version and writes it in the background; waits for the save before, whose failure is reported
 * here. */
hd_status hd__saver_begin(hd_saver *saver, hd_ctx *ctx, const hd_counters *counters, json_t *record, bool is_best);

/* Waits for the save under way and reports its failure. */
hd_status hd__saver_wait(hd_saver *saver, hd_ctx *ctx);

/* The folder that holds model.safetensors: `path` itself or path/last, links followed. */
hd_status hd__checkpoint_find(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *path);

/* Reads a checkpoint's run.json; the caller owns it. */
hd_status hd__checkpoint_record(json_t **out, hd_ctx *ctx, const char *folder);

/* Loads weights from a safetensors file into the last whole version's half, exactly the store's parameters; packing is
 * the caller's. `record` is that of the checkpoint whose model.safetensors this is: the file must have the checksum that
 * stands there. NULL for a file by itself. */
hd_status hd__checkpoint_load_weights(hd_store *store, hd_ctx *ctx, const char *path, const json_t *record);

/* Loads counters and optimizer states from folder/state.safetensors, which must have the record's checksum; the step
 * counted becomes the store's version, so weights are loaded afterwards, into that version's half. */
hd_status hd__checkpoint_load_state(hd_store *store, hd_counters *counters, hd_ctx *ctx, hd_op update,
                                    const char *folder, const json_t *record);

/* Whether a tensor may stand in model.safetensors: floats, or a batch norm's count of batches. */
bool hd__checkpoint_holds(const hd_st_tensor *tensor);

/* The digest of the last whole version. */
hd_status hd__checkpoint_digest(char hex[65], hd_ctx *ctx, const hd_store *store);

#endif
