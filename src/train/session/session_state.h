/* A session's state, and what can be read of it at once. */
#ifndef HD_TRAIN_SESSION_SESSION_STATE_H
#define HD_TRAIN_SESSION_SESSION_STATE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "exec/gpu/device/cuda_device.h"
#include "exec/executor.h"
#include "heddle/session.h"
#include "platform/job_page.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/emergency_save.h"
#include "train/checkpoint/saver.h"
#include "train/profile/profile.h"
#include "train/session/batch_supply.h"
#include "train/session/gpu_memory_report.h"
#include "train/session/rank_times.h"
#include "train/session/sample_feed.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"
#include "train/settings/schedule.h"

/* What is trained, and how far it has come. */
typedef struct session_run {
  hd_config *config;
  const hd_settings *settings; /* of config */
  json_t *record;              /* run.json */
  hd_network network;
  hd_schedule schedule;
  int64_t batch, steps_per_epoch, steps_in_all;
  hd_counters counters;
  int64_t planned, target;            /* steps handed to the executor, and the end of the present region */
  int64_t pause;                      /* the step at which train_until returns to the caller */
  int64_t evaluated_step;             /* -1: never */
  int64_t trained_samples;            /* by this session */
  double train_s, region_s;           /* trained before this region, and its start */
  double call_loss_sum, call_divisor; /* since the present call of hd_session_step began */
  atomic_int stop;
} session_run;

/* What computes. */
typedef struct session_compute {
  hd_local_group *local;     /* the ranks that share each step; NULL: a single process. It outlives the session */
  const hd_kernels *kernels; /* of the CPU */
  hd_threads *threads;
  hd_cuda *cuda; /* the GPU that computes instead; NULL: none */
  hd_plan *plan, *eval_plan;
  hd_store *store;
  hd_exec *exec, *eval_exec;
  char resumed_device[16]; /* the choice of --device auto in the resumed run; "": none */
} session_compute;

/* Where samples come from. */
typedef struct session_input {
  hd_data *data;
  hd_feed train, val, test; /* val has no samples without a split */
  hd_resident resident;     /* training samples in the form that a GPU gathers */
  hd_supply *supply;        /* reads the training samples by workers; NULL: threads read them */
  hd_segment skip_memory;   /* marks of samples that a rank could not read */
  int64_t spread_skips[2];  /* marks of train and test samples that are known on all hosts */
  bool noted_loose;         /* reported: the loader's ring is not locked */
} session_input;

/* What is kept in the run's folder to resume from. */
typedef struct session_checkpoints {
  char folder[HD_PATH_BYTES];
  int lock;                /* on the folder, -1: none */
  hd_saver saver;          /* used by rank 0 only, like the metrics, the lock and the profile */
  int64_t saved_step;      /* of the last checkpoint in the folder, whole or in progress; -1: there is none */
  hd_emergency *emergency; /* NULL without other ranks */
} session_checkpoints;

/* What is reported to the caller, written to the run's folder and published to other processes. */
typedef struct session_report {
  hd_report facts;
  hd_event_fn *on_event;
  void *user;            /* of on_event */
  char device[64];       /* "cpu", "cuda:0,1" */
  char device_note[320]; /* the reason for that device, or against sums by NCCL */
  char wrong_png[HD_PATH_BYTES];
  hd_gpu_accounts gpu_memory;
  hd_rank_place *places; /* one per rank */
  hd_rank_times rank_times;
  hd_exec_outcome guesses; /* of the last evaluation, in memory that all ranks write */
  hd_segment guess_memory;
  FILE *metrics;
  double logged_s; /* trained, at the last log line */
  int64_t logged_samples;
  hd_profiler profiler;
  hd_job_page page;   /* for tools that list jobs */
  bool noted_refusal; /* reported: the system refused to bind threads or their memory */
} session_report;

struct hd_session {
  session_run run;
  session_compute compute;
  session_input input;
  session_checkpoints checkpoints;
  session_report report;
};

/* Whether this rank writes the run's folder. */
bool hd__session_writes(const hd_session *session);

/* Calls the caller's event function. */
void hd__session_event(hd_session *session, const hd_event *event);

/* Seconds of training so far, including those of the present region. */
double hd__session_train_s(const hd_session *session);

/* The instruction set, or the GPU's architecture; and the bytes of the session's memory. */
const char *hd__session_isa(const hd_session *session);

/* gpu_sums and nccl of the report, after a change of devices. */
void hd__session_note_gpu_sums(hd_session *session);
int64_t hd__session_bytes(const hd_session *session);

/* The library of --arithmetic native that computes the session; "" for none. Valid as long as the session. */
const char *hd__session_library(const hd_session *session);

#endif
