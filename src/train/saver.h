/* Saving: takes a copy of the last whole version (its third place in memory) and writes it from a thread of its own
 * while training goes on. What a checkpoint is stands in checkpoint.h.
 *
 * A checkpoint is written into a new folder, synced and renamed; only then do the links move and old ones go. */
#ifndef HD_TRAIN_SAVER_H
#define HD_TRAIN_SAVER_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "exec/trace.h"
#include "train/checkpoint_tensors.h"

typedef struct hd_saver {
  hd_store *store;
  hd_op update; /* names the states */
  int keep;
  char run[HD_PATH_BYTES];
  float *copy;    /* weights and states of one version, home order */
  float *ordered; /* the same in file order */
  int64_t bytes;  /* of these two */
  hd_st_tensor *tensor;
  hd_track *track; /* where the writer records, or NULL */
  /* The job of the writer thread. */
  bool busy, is_best;
  pthread_t thread;
  atomic_bool has_ended; /* by the writer's own word: then hd__saver_wait does not wait */
  hd_counters counters;
  json_t *record; /* what goes to run.json: a copy, to which the files' checksums are added */
  hd_ctx ctx;     /* the writer's own message */
  hd_status status;
} hd_saver;

/* Bytes of the copies that a saver keeps: one version in home order, one in file order. */
int64_t hd__saver_bytes(const hd_plan *plan, int states);

/* Whether that is the name of a checkpoint, and of which step; no other that reads alike: "step-07" is somebody
 * else's. */
bool hd__saver_is_step(int64_t *step, const char *name);

/* What a run's folder holds under the names of checkpoints must be such, before the first step: a file of that name is
 * never replaced. */
hd_status hd__saver_check_run(hd_ctx *ctx, const char *run);

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

/* Whether hd__saver_wait would not wait. */
bool hd__saver_has_ended(const hd_saver *saver);

#endif
