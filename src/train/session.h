/* A session's insides, shared by the files that set it up, train it and report on it. */
#ifndef HD_TRAIN_SESSION_H
#define HD_TRAIN_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/cuda.h"
#include "exec/exec.h"
#include "heddle/session.h"
#include "sys/job_page.h"
#include "train/checkpoint.h"
#include "train/config.h"
#include "train/feed.h"
#include "train/gpu_accounts.h"
#include "train/network.h"
#include "train/profile.h"
#include "train/rank_times.h"
#include "train/rescue.h"
#include "train/saver.h"
#include "train/schedule.h"
#include "train/supply.h"

struct hd_session {
  hd_config *config;
  hd_world *world; /* of the ranks that share each step; NULL: this process alone. It outlives the session */
  hd_network network;
  hd_data *data;
  json_t *record;
  const hd_kernels *kernels; /* of the CPU */
  hd_resident resident;      /* training samples for the GPU */
  hd_cuda *cuda;             /* the GPU that computes in its place; NULL: none */
  hd_lanes *lanes;
  hd_plan *plan, *eval_plan;
  hd_store *store;
  hd_exec *exec, *eval_exec;
  hd_schedule schedule;
  hd_feed train_feed, val_feed, test_feed; /* val_feed without samples: no split */
  hd_supply *supply;                       /* of train_feed by workers; NULL: lanes read it */
  hd_exec_outcome guesses;                 /* of the last evaluation, in memory that all ranks write */
  hd_segment guess_memory;
  hd_segment skip_memory; /* marks of samples that a rank could not read */
  hd_saver saver;         /* of rank 0, as the metrics, the lock and the profile */
  hd_rescue *rescue;      /* NULL without other ranks */
  hd_rank_place *places;  /* of the ranks, for the report */
  hd_rank_times rank_times;
  hd_profiler profiler;
  FILE *metrics;
  hd_job_page page; /* for whoever looks at running jobs */
  int lock;         /* of the run's folder, -1: none */
  char out[HD_PATH_BYTES], wrong_png[HD_PATH_BYTES];
  char device[64];              /* for the report: "cpu", "cuda:0,1" */
  char resumed_device[16];      /* what --device auto chose in the run that goes on; "": nothing */
  char device_note[320];        /* for the report: why that device, or why NCCL does not add */
  hd_gpu_accounts gpu_memory;   /* for the report */
  char out_data[HD_PATH_BYTES]; /* the data's name for the report */

  int64_t batch, steps_per_epoch, steps_in_all;
  hd_counters counters;
  int64_t planned, target;                  /* steps handed to the executor, and where this run of it ends */
  int64_t pause;                            /* the step at which the caller wants to be asked again */
  double stretch_loss_sum, stretch_divisor; /* since the caller was asked last */
  double train_s, logged_s, region_s;       /* trained before this region, at the last log line, this region's start */
  int64_t trained_samples, logged_samples;
  int64_t evaluated_step; /* -1: never */
  atomic_int stop;
  int64_t spread_skips[2]; /* marks of train and test that all hosts have */
  bool told_refusal;       /* of the system, to bind lanes or their memory */
  bool told_loose;         /* that the loader's ring is not locked */
  hd_event_fn *on_event;
  void *user;
  hd_report report;
};

/* A session whose steps the ranks of a world share: all of them create one, of the same configuration but for its
 * layout. The world outlives it. */
hd_status hd__session_create_in(hd_session **out, hd_ctx *ctx, const hd_config *config, hd_world *world);

/* A session without a run's folder: it is set up, saves nothing and logs nothing. */
hd_status hd__session_rehearse(hd_session **out, hd_ctx *ctx, const hd_config *config);

/* Everything from the configuration up to the first step: settings, data, model, plan, memory, weights. */
hd_status hd__session_setup(hd_session *session, hd_ctx *ctx);

/* What computes: plans, the store, which has no weights yet, and executors, for the GPU in `cuda` or the lanes. */
hd_status hd__session_equip(hd_session *session, hd_ctx *ctx, int32_t shards);

/* The instruction set, or the GPU's architecture; and what the session's memory takes. */
const char *hd__session_isa(const hd_session *session);
int64_t hd__session_bytes(const hd_session *session);

/* Goes on on another device, a GPU or with NULL the lanes, with the last whole version's bits. The session owns the GPU
 * from now on; if it fails the session stays where it was, and the GPU is closed. No region may run. */
hd_status hd__session_move(hd_session *session, hd_ctx *ctx, hd_cuda *cuda);

/* Loader workers for the session's training samples, beside these lanes; *out is NULL without workers. `repeats`:
 * as in hd_supply_settings. */
hd_status hd__session_supply(hd_supply **out, hd_ctx *ctx, hd_session *session, const hd_lanes *lanes, int workers,
                             int64_t repeats);

/* The library of --arithmetic native that computes the session; "" for none. Lives as long as the session. */
const char *hd__session_library(const hd_session *session);

/* What step number `index` of the run is, counted from 0. */
void hd__session_describe(hd_step *step, const hd_session *session, int64_t index);

/* Locks the run that is resumed, if there is one and it goes on in its own folder, before anything of it is read:
 * whoever still writes it would remove checkpoints meanwhile. */
hd_status hd__session_lock_resumed(hd_session *session, hd_ctx *ctx);

/* Counts the samples that could not be read so far, where such are skipped, in report and record. */
hd_status hd__session_count_skips(hd_session *session, hd_ctx *ctx);

/* What a rank of another host could not read, this host leaves out and counts, too. All ranks. */
hd_status hd__session_spread_skips(hd_session *session, hd_ctx *ctx);

/* The run's folder, its record and its metrics file. */
hd_status hd__session_open_run(hd_session *session, hd_ctx *ctx);

/* Draws the most confident mistakes of the last evaluation to OUT/wrong.png. */
hd_status hd__session_draw_wrong(hd_session *session, hd_ctx *ctx);

/* The line of an evaluation in metrics.jsonl, if there is a validation split. */
void hd__session_log_validation(hd_session *session);

/* One line of metrics.jsonl. */
void hd__session_log(hd_session *session, const hd_step *step, double loss);

/* Whether it is this rank that keeps the run's folder. */
bool hd__session_writes(const hd_session *session);

/* Tells the callback. */
void hd__session_tell(hd_session *session, const hd_event *event);

/* Seconds of training so far, with what passed of the region under way. */
double hd__session_train_s(const hd_session *session);

#endif
