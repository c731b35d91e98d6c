/* The internals of a session, shared by the files that set it up, train it and report on it. */
#ifndef HD_TRAIN_SESSION_SESSION_H
#define HD_TRAIN_SESSION_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/tools_api.h"
#include "exec/gpu/device/cuda_device.h"
#include "exec/cpu/cpu_executor.h"
#include "heddle/session.h"
#include "platform/job_page.h"
#include "train/checkpoint/checkpoint.h"
#include "train/settings/config.h"
#include "train/session/sample_feed.h"
#include "train/session/gpu_memory_report.h"
#include "train/settings/model_source.h"
#include "tools/profile/profile.h"
#include "train/session/rank_times.h"
#include "train/checkpoint/emergency_save.h"
#include "train/checkpoint/saver.h"
#include "train/settings/schedule.h"
#include "train/session/batch_supply.h"

struct hd_session {
  hd_config *config;
  hd_local_group *local; /* the ranks that share each step; NULL: a single process. It outlives the session */
  hd_network network;
  hd_data *data;
  json_t *record;
  const hd_kernels *kernels; /* of the CPU */
  hd_resident resident;      /* training samples in the form that a GPU gathers */
  hd_cuda *cuda;             /* the GPU that computes instead; NULL: none */
  hd_threads *threads;
  hd_plan *plan, *eval_plan;
  hd_store *store;
  hd_exec *exec, *eval_exec;
  hd_schedule schedule;
  hd_feed train_feed, val_feed, test_feed; /* val_feed has no samples without a split */
  hd_supply *supply;                       /* reads train_feed by workers; NULL: threads read it */
  hd_exec_outcome guesses;                 /* of the last evaluation, in memory that all ranks write */
  hd_segment guess_memory;
  hd_segment skip_memory;  /* marks of samples that a rank could not read */
  hd_saver saver;          /* used by rank 0 only, like the metrics, the lock and the profile */
  hd_emergency *emergency; /* NULL without other ranks */
  hd_rank_place *places;   /* one per rank, for the report */
  hd_rank_times rank_times;
  hd_profiler profiler;
  FILE *metrics;
  hd_job_page page; /* for tools that list jobs */
  int lock;         /* on the run's folder, -1: none */
  char out[HD_PATH_BYTES], wrong_png[HD_PATH_BYTES];
  char device[64];              /* for the report: "cpu", "cuda:0,1" */
  char resumed_device[16];      /* the choice of --device auto in the resumed run; "": none */
  char device_note[320];        /* for the report: the reason for that device, or against sums by NCCL */
  hd_gpu_accounts gpu_memory;   /* for the report */
  char out_data[HD_PATH_BYTES]; /* the data's name for the report */

  int64_t batch, steps_per_epoch, steps_in_all;
  hd_counters counters;
  int64_t planned, target;            /* steps handed to the executor, and the end of the present region */
  int64_t pause;                      /* the step at which train_until returns to the caller */
  double call_loss_sum, call_divisor; /* since the present call of hd_session_step began */
  double train_s, logged_s, region_s; /* trained before this region, at the last log line, this region's start */
  int64_t trained_samples, logged_samples;
  int64_t evaluated_step; /* -1: never */
  int64_t saved_step;     /* of the last checkpoint in the run's folder, whole or in progress; -1: there is none */
  atomic_int stop;
  int64_t spread_skips[2]; /* marks of train and test samples that are known on all hosts */
  bool noted_refusal;      /* reported: the system refused to bind threads or their memory */
  bool noted_loose;        /* reported: the loader's ring is not locked */
  hd_event_fn *on_event;
  void *user;
  hd_report report;
};

/* A session whose steps the ranks of a local group share: all ranks create one, with the same configuration except for
 * the layout. The group outlives it. */
hd_status hd__session_create_in(hd_session **out, hd_ctx *ctx, const hd_config *config, hd_local_group *local);

/* A session without a run's folder: it is set up, saves nothing and logs nothing. */
HD_TOOLS_API hd_status hd__session_rehearse(hd_session **out, hd_ctx *ctx, const hd_config *config);

/* Everything from the configuration up to the first step: settings, data, model, plan, memory, weights. */
hd_status hd__session_setup(hd_session *session, hd_ctx *ctx);

/* Creates plans, the store without weights, and executors, for the GPU in `cuda` or the threads. */
hd_status hd__session_equip(hd_session *session, hd_ctx *ctx, int32_t shards);

/* The instruction set, or the GPU's architecture; and the bytes of the session's memory. */
const char *hd__session_isa(const hd_session *session);
int64_t hd__session_bytes(const hd_session *session);

/* Continues on another device, a GPU or with NULL the threads, with the bits of the last whole version. The session
 * owns the GPU from now on; on failure the session stays on its device, and the GPU is closed. No region may run. */
hd_status hd__session_move(hd_session *session, hd_ctx *ctx, hd_cuda *cuda);

/* Creates loader workers for the session's training samples, beside these threads; *out is NULL without workers.
 * `repeats`: as in hd_supply_settings. */
hd_status hd__session_supply(hd_supply **out, hd_ctx *ctx, hd_session *session, const hd_threads *threads, int workers,
                             int64_t repeats);

/* The library of --arithmetic native that computes the session; "" for none. Valid as long as the session. */
const char *hd__session_library(const hd_session *session);

/* Fills in step number `index` of the run, counted from 0. */
void hd__session_describe(hd_step *step, const hd_session *session, int64_t index);

/* Locks the run that is resumed, if it continues in its folder, before anything of it is read: a process that still
 * writes it would remove checkpoints meanwhile. */
hd_status hd__session_lock_resumed(hd_session *session, hd_ctx *ctx);

/* With --on-error skip: writes the number of samples that could not be read so far to report and record. */
hd_status hd__session_count_skips(hd_session *session, hd_ctx *ctx);

/* Whether step number `step`, counted from 1, is followed by an evaluation. */
bool hd__session_evaluates_after(const hd_session *session, int64_t step);

/* Completes the last step of a region: its checkpoint and, unless the run was stopped, its evaluation if one is due.
 * Collective over all ranks, like the calls below. */
hd_status hd__session_end_region(hd_session *session, hd_ctx *ctx, bool stopped);

/* Makes the evaluation of the last step if one is due; its checkpoint is whole before. */
hd_status hd__session_settle_evaluation(hd_session *session, hd_ctx *ctx);

/* Where training samples cannot be read: saves the last whole step. Returns `status`, and adds to the message how to
 * continue. */
hd_status hd__session_save_without_data(hd_session *session, hd_ctx *ctx, hd_status status);

/* Begins to save the last whole step, after the previous save; waits until a save is whole, or has failed. All ranks
 * wait for it, since launchers end the others soon after the first has ended. */
hd_status hd__session_begin_save(hd_session *session, hd_ctx *ctx);
hd_status hd__session_await_save(hd_session *session, hd_ctx *ctx);

/* After the step's evaluation: links `best` to its checkpoint, which is whole, if it is better than all before, and
 * removes old checkpoints. */
hd_status hd__session_mark_best(hd_session *session, hd_ctx *ctx);

/* Marks samples that a rank of another host could not read as left out on this host too. All ranks. */
hd_status hd__session_spread_skips(hd_session *session, hd_ctx *ctx);

/* The run's folder, its record and its metrics file. */
hd_status hd__session_open_run(hd_session *session, hd_ctx *ctx);

/* Draws the most confident mistakes of the last evaluation to OUT/wrong.png. */
hd_status hd__session_draw_wrong(hd_session *session, hd_ctx *ctx);

/* Writes the line of an evaluation to metrics.jsonl, if there is a validation split. */
void hd__session_log_validation(hd_session *session);

/* Writes the last step's line to metrics.jsonl, if the step is logged. */
void hd__session_log(hd_session *session);

/* Whether this rank writes the run's folder. */
bool hd__session_writes(const hd_session *session);

/* Calls the caller's event function. */
void hd__session_event(hd_session *session, const hd_event *event);

/* Seconds of training so far, including those of the present region. */
double hd__session_train_s(const hd_session *session);

#endif
