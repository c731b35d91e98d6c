/* Saving: copies the last whole version into a third buffer and writes it from a writer thread while training goes on.
 * checkpoint.h defines the files.
 *
 * A checkpoint is written into a new folder, synced and renamed; only then are the links moved and old checkpoints
 * removed. */
#pragma once

#include <jansson.h>
#include <stdatomic.h>

#include "base/digest.h"
#include "exec/trace.h"
#include "platform/thread_start.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/step_folders.h"

struct hd_saver_hosts;

typedef struct hd_saver {
  hd_store *store;
  int keep;
  char run[HD_PATH_BYTES];
  float *copy;   /* weights and states of one version, memory order, */
  float *file;   /* and in file order, where the two differ */
  int64_t bytes; /* of these two buffers, as far as they are used */
  hd_st_tensor *tensor;
  struct hd_saver_hosts *hosts;      /* where each host has weights of its own: saver_hosts.h; else NULL */
  const hd_st_source *const *source; /* of each entry, as in hd_values */
  hd_track *track;                   /* where the writer records its slices, or NULL */
  /* The present job of the writer thread. */
  hd_thread thread;
  atomic_bool has_ended; /* set by the writer: hd__saver_wait then returns at once */
  hd_counters counters;
  json_t *record; /* written to run.json: a copy, to which the files' checksums and digests are added */
  char weights_sha256[HD_SHA256_HEX_BYTES], state_sha256[HD_SHA256_HEX_BYTES];
  hd_ctx ctx; /* the writer's message */
  hd_status status;
} hd_saver;

/* Bytes of a saver's buffers: one version in memory order, and the parameters whose file order differs a second
 * time. */
int64_t hd__saver_bytes(const hd_plan *plan);

/* Before the first step: checks what the run's folder holds under the names of checkpoints that the run may write, from
 * `first` on. A checkpoint is a folder that holds model.safetensors, state.safetensors and a run's record, and nothing
 * else: anything else under such a name is the user's, and is neither replaced, nor counted, nor removed. Where no run
 * is, so is a file under the name of another one of a run's. */
hd_status hd__saver_check_run(hd_ctx *ctx, const char *run, int64_t first);

/* Removes temporary files that interrupted saves left in a run's folder. No other process may be writing there. */
void hd__saver_remove_leftovers(const char *run);

/* `run` is the run's folder, which must exist. */
hd_status hd__saver_init(hd_saver *saver, hd_ctx *ctx, hd_store *store, const char *run, int keep);

/* Writes run.json into the folder of a checkpoint, or of a new run. */
hd_status hd__checkpoint_write_record(hd_ctx *ctx, const char *folder, json_t *record);

/* Waits for a save in progress and releases everything. */
void hd__saver_fini(hd_saver *saver);

/* Copies the last whole version and writes it in the background. Waits for the previous save first, and reports its
 * failure. */
hd_status hd__saver_begin(hd_saver *saver, hd_ctx *ctx, const hd_counters *counters, json_t *record);

/* Called after the evaluation of `step`, whose checkpoint is complete: links `best` to it if it is the best one, and
 * removes old checkpoints, which are kept until then. No save may be in progress. */
hd_status hd__saver_settle(hd_saver *saver, hd_ctx *ctx, int64_t step, bool is_best);

/* Rewrites the run's run.json, with this key of the record. No save may be in progress. */
hd_status hd__saver_amend(hd_saver *saver, hd_ctx *ctx, json_t *record, const char *key);

/* Waits for the save in progress and reports its failure. */
hd_status hd__saver_wait(hd_saver *saver, hd_ctx *ctx);

/* Whether hd__saver_wait would return at once. */
bool hd__saver_has_ended(const hd_saver *saver);

/* Whether it would return a failure at once. */
bool hd__saver_has_failed(const hd_saver *saver);
