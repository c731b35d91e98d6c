/* A session's state, and what can be read of it at once. */
#ifndef HD_TRAIN_SESSION_SESSION_STATE_H
#define HD_TRAIN_SESSION_SESSION_STATE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "exec/gpu/device/cuda_device.h"
#include "exec/cpu/cpu_executor.h"
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

struct hd_session {
  hd_config *config;
  const hd_settings *settings; /* of config */
  hd_local_group *local;       /* the ranks that share each step; NULL: a single process. It outlives the session */
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

/* Whether this rank writes the run's folder. */
bool hd__session_writes(const hd_session *session);

/* Calls the caller's event function. */
void hd__session_event(hd_session *session, const hd_event *event);

/* Seconds of training so far, including those of the present region. */
double hd__session_train_s(const hd_session *session);

/* The instruction set, or the GPU's architecture; and the bytes of the session's memory. */
const char *hd__session_isa(const hd_session *session);
int64_t hd__session_bytes(const hd_session *session);

/* The library of --arithmetic native that computes the session; "" for none. Valid as long as the session. */
const char *hd__session_library(const hd_session *session);

#endif
