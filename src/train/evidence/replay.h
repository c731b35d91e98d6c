/* Repeating a run, whole or step by step.
 *
 * A replay computes the steps of a run on one thread, with a recorder between the plan and its kernels, and nothing
 * else: no folder, no evaluation. It starts at a checkpoint, or at the run's beginning. */
#pragma once

#include "train/evidence/recorder.h"
#include "train/run/session.h"

/* The configuration of a run that a record (or a certificate) states, on the layout of another configuration; resume: a
 * checkpoint to start from, or "". The caller owns it. */
hd_status hd__replay_configure(hd_config **out, hd_ctx *ctx, const hd_config *layout, const json_t *record,
                               const char *resume);

/* A temporary folder, and the path of a run in it; removes both. */
hd_status hd__scratch_make(char folder[HD_PATH_BYTES], char run[HD_PATH_BYTES], hd_ctx *ctx);
void hd__scratch_remove(const char *folder, const char *run);

typedef struct hd_replay {
  hd_session *session;
  hd_recorder recorder;
  int64_t step;    /* done so far, those before the checkpoint included */
  bool handed;     /* the current step was given to the executor */
  double loss_sum; /* of the last step, as losses.bin has it */
} hd_replay;

hd_status hd__replay_open(hd_replay *out, hd_ctx *ctx, const hd_config *config);

/* Computes the next step; HD_E_NOTFINITE if it does not count. */
hd_status hd__replay_step(hd_replay *replay, hd_ctx *ctx);
void hd__replay_close(hd_replay *replay);
