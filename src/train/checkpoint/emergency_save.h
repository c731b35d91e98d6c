/* The emergency save: saves a run without its session, from memory that the ranks share with their parent or
 * supervisor.
 *
 * A step's closing barrier makes a version count. The counters of that version are written before the barrier, to the
 * slot of the version's parity. So when the ranks have ended, even all at once, the parent or the supervisor finds the
 * last whole version with its counters, and saves it as the session would have. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "exec/exchange/local_group.h"
#include "train/checkpoint/checkpoint.h"

typedef struct hd_emergency hd_emergency;

/* What is saved besides the weights. */
typedef struct hd_emergency_run {
  const char *folder; /* must exist */
  int keep;           /* number of checkpoints */
  bool
      remote; /* versions are in a device's memory, and copied to the store only while a process is left to copy them */
  bool apart; /* each host has only the weights of its own stages */
  const json_t *record;
  const hd_counters *counters; /* of the present version */
} hd_emergency_run;

/* Collective over the ranks of a local group; rank 0's settings are taken. *out is NULL without a local group, which
 * every call below allows. */
hd_status hd__emergency_open(hd_emergency **out, hd_ctx *ctx, hd_local_group *local, const hd_emergency_run *run);
void hd__emergency_close(hd_emergency *emergency);

/* All ranks: the counters with which version counters->step, which is about to count, will be saved. The counters of a
 * version that counts are not written again. */
void hd__emergency_note(hd_emergency *emergency, const hd_counters *counters);

/* After the ranks have ended, or by the surviving rank that saves for them: saves the last whole version into the run,
 * unless it is saved already. *step is that version, `run` the folder, and *wrote (may be NULL) whether this call saved
 * it. HD_E_USAGE if the ranks had not yet shared a run: there is nothing to save. HD_E_UNSUPPORTED if the version was
 * lost with the GPUs' memory, or with another host: the message names the last checkpoint. */
hd_status hd__emergency_save(int64_t *step, char run[HD_PATH_BYTES], bool *wrote, hd_ctx *ctx, hd_local_group *local);
