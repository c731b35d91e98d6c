/* A session inside the library: its state, and the functions of its files. heddle/session.h has the calls of
 * programs. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/tools_api.h"
#include "exec/executor.h"
#include "heddle/generate.h"
#include "heddle/session.h"
#include "platform/job_page.h"
#include "optimizer/schedule.h"
#include "train/placement/device_open.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/emergency_save.h"
#include "train/checkpoint/losses.h"
#include "train/checkpoint/saver.h"
#include "train/profile/profile.h"
#include "data/feed/batches.h"
#include "train/records/event_file.h"
#include "train/records/rank_report.h"
#include "data/feed/feed.h"
#include "train/run/program_loss.h"
#include "train/run/stages.h"
#include "train/settings/config.h"
#include "train/settings/model_source.h"

/* The network and the state of its training. */
typedef struct session_run {
  hd_config *config;
  const hd_settings *settings; /* of config */
  json_t *record;              /* run.json */
  hd_network network;
  hd_schedule schedule[HD_MAX_GROUPS]; /* of the plan's groups; the first is the run's */
  int64_t steps_of_epochs;             /* of all epochs, without --max-steps */
  int64_t batch, steps_per_epoch, steps_in_all;
  int32_t shards; /* of a batch */
  hd_counters counters;
  int32_t resumed_arithmetic; /* its version in the checkpoint; 0 for a new run */
  int32_t earlier_arithmetic; /* the version of earlier steps, where it has other numbers; 0: there are none */
  int64_t earlier_steps, earlier_epochs; /* of runs that it goes on from (hd_session_go_on) */
  bool rehearses;                        /* as its use says */
  bool second_stage;                     /* what --unfreeze names is trained */
  bool trains;                           /* hd_session_train or hd_session_step has not returned */
  bool steps;                            /* are running */
  bool lr_is_set;                        /* by the program: */
  double lr_scale;                       /* the factor of the schedules' learning rates */
  int64_t planned, target;               /* steps handed to the executor, and the end of the present region */
  int64_t pause;                         /* the step at which train_until returns to the caller */
  int64_t evaluated_step;                /* -1: never */
  int64_t trained_samples;               /* by this session */
  double train_s, region_s;              /* trained before this region, and its start */
  double evaluate_s, save_s;             /* spent in evaluations; in saves, as far as training waited for them */
  double call_loss_sum, call_divisor;    /* since the present call of hd_session_step began */
  atomic_int stop;
} session_run;

/* What computes. */
typedef struct session_compute {
  hd_local_group *local; /* the ranks that share each step; NULL: a single process. It outlives the session */
  hd_run_device device;
  const hd_kernels *kernels; /* of the threads */
  hd_threads *threads;
  hd_program_loss *program; /* the loss of the program, or NULL */
  hd_plan *plan, *eval_plan;
  int cut;                /* the node as written behind which these begin, reading features; -1: they read samples */
  hd_plan *whole, *front; /* with a cut: evaluations of all, for its shapes alone, and up to there; else NULL */
  hd_store *store;
  hd_store *average_store;  /* --ema: the average as weights, for evaluations; else NULL */
  bool here[HD_MAX_STAGES]; /* of each stage: whether this host runs it */
  hd_exec *exec, *eval_exec;
  char resumed_device[16]; /* the choice of --device auto in the resumed run; "": none */
} session_compute;

/* What a frozen front of the network makes of all samples: kept_features.h. */
typedef struct session_features {
  int cut;        /* 1 + the cut that these are of; 0: there are none */
  int64_t elems;  /* of a sample */
  bool on_disk;   /* in a file, else in memory that the ranks of a host share */
  char layer[96]; /* the last one of the front */
  hd_segment memory;
  hd_mapping file;
} session_features;

/* Where samples come from. */
typedef struct session_input {
  hd_dataset *data;
  hd_feed train, val, test; /* val has no samples without a split */
  hd_target_scale targets;  /* of numbers to predict */
  session_features features;
  bool chose_epochs;       /* --epochs was not given, and follows the data */
  hd_sample_table table;   /* training samples in the form that a device gathers by itself */
  hd_batches *batches;     /* reads the training samples by workers; NULL: threads read them */
  hd_segment skip_memory;  /* marks of samples that a rank could not read */
  int64_t spread_skips[2]; /* marks of train and test samples that are known on all hosts */
  bool noted_loose;        /* reported: the loader's ring is not locked */
} session_input;

/* What is kept in the run's folder to resume from. */
typedef struct session_checkpoints {
  char folder[HD_PATH_BYTES];
  char resumed[HD_PATH_BYTES]; /* the checkpoint to continue from; "": none */
  int lock;                    /* on the folder, -1: none */
  hd_saver saver;              /* used by rank 0 only, like the metrics, the lock and the profile */
  int64_t saved_step;          /* of the last checkpoint in the folder, whole or in progress; -1: there is none */
  hd_emergency *emergency;     /* NULL without other ranks */
  hd_losses losses;            /* of each step */
  hd_losses divisors;          /* of their means, where they vary */
} session_checkpoints;

/* What is reported to the caller, written to the run's folder and published to other processes. */
typedef struct session_report {
  hd_report facts;
  hd_event_fn *on_event;
  void *user;                /* of on_event */
  char device[64];           /* "cpu", "cuda:0,1" */
  char arithmetic_note[192]; /* of converted numbers, or names */
  char input_note[448], model_note[512], features_note[320];
  char device_note[320]; /* the reason for that device, or against sums by NCCL */
  char threads_note[96];
  char wrong_png[HD_PATH_BYTES];
  hd_gpu_accounts gpu_memory;
  hd_stage_accounts stages;
  hd_rank_place *places; /* one per rank */
  int32_t all_cpus;      /* of all hosts */
  hd_rank_times rank_times;
  hd_exec_outcome guesses; /* of the last evaluation, in memory that all ranks write; with --tta this rank's */
  hd_exec_outcome views;   /* with --tta: of the view that is evaluated, in memory that all ranks write */
  hd_segment guess_memory;
  float *mean_memory; /* of guesses with --tta */
  FILE *metrics;
  hd_event_file *events; /* of --tensorboard, or NULL */
  double logged_s;       /* trained, at the last log line */
  int64_t logged_samples;
  hd_profiler profiler;
  hd_job_page page;   /* for tools that list jobs */
  bool noted_refusal; /* reported: the system refused to bind threads or their memory */
  bool had_ended;     /* nothing is left to do: the resumed run has ended, and its history says so, or the run or its
                         last checkpoint is later */
} session_report;

struct hd_session {
  unsigned process; /* that created it: it writes the run's folder and owns the threads */
  session_run run;
  session_compute compute;
  session_input input;
  session_checkpoints checkpoints;
  session_report report;
};

/* Whether training has ended by --patience; and whether it has ended at all. */
static inline bool hd__session_patience_ended(const hd_session *s) {
  return s->run.settings->patience > 0 && s->run.counters.stale_epochs >= s->run.settings->patience;
}
static inline bool hd__session_is_over(const hd_session *s) {
  return s->run.counters.step >= s->run.steps_in_all || hd__session_patience_ended(s);
}

/* Whether a metric judges it: the option's or the program's. */
static inline bool hd__session_has_metric(const hd_session *s) {
  return s->run.settings->metric >= 0 || hd__config_metric(s->run.config);
}

/* HD_E_USAGE in a child of the process that created the session. */
hd_status hd__session_check_process(const hd_session *session, hd_ctx *ctx);

/* The same, and HD_E_USAGE in a callback of a session that is training. */
hd_status hd__session_check_idle(const hd_session *session, hd_ctx *ctx);

/* Whether this rank writes the run's folder. */
bool hd__session_writes(const hd_session *session);

/* Nothing is measured yet: of the first weights, or of others in their place. */
void hd__session_clear_scores(hd_session *session);

/* Calls the caller's event function. */
void hd__session_event(hd_session *session, const hd_event *event);

/* Seconds of training so far, including those of the present region. */
double hd__session_train_s(const hd_session *session);

/* The instruction set of the device; and the bytes of the session's memory. */
const char *hd__session_isa(const hd_session *session);
int64_t hd__session_bytes(const hd_session *session);

/* A plan of the session's network in these stages, for training or for evaluation. shift: NULL if it may not add it.
 * Draws the first weights of such a plan, of the stages that are here (NULL: all); what is computed from samples
 * reads those of training as an evaluation sees them. */
/* Gives the schedules the learning rate that the program set. */
void hd__session_scale_lr(hd_session *session);

hd_status hd__session_plan(hd_plan **out, hd_session *session, hd_ctx *ctx, const float *shift, bool train,
                           const hd_stages *stages);

/* The network of the session's stage, with its rules; and evaluation plans of it and of its front, for
 * compute.whole and compute.front. */
hd_status hd__session_graph(hd_graph **out, hd_session *session, hd_ctx *ctx, bool train);
hd_status hd__session_fronts(hd_session *session, hd_ctx *ctx, const float *shift);

/* The plan that shows the shapes of the whole network, and whether samples come without the shift. */
const hd_plan *hd__session_whole(const hd_session *session);
bool hd__session_shifts(const hd_session *session);
hd_status hd__session_draw(hd_store *store, hd_session *session, hd_ctx *ctx, const hd_plan *plan, const bool *here);

/* Fills in how devices add gradients; returns why not a library although it was requested, "" if it does or none is
 * wanted. */
const char *hd__session_note_sums(hd_session *session);

/* The library of --arithmetic native that computes the session; "" for none. Valid as long as the session. */
HD_TOOLS_API const char *hd__session_library(const hd_session *session);

/* ---- Creating sessions: session.c ---- */

/* What a session is created for. */
typedef struct hd_session_use {
  hd_local_group *local; /* whose ranks share its steps: all create one, with the same configuration except for the
                            layout. It outlives the session. NULL: this process alone */
  bool rehearses;        /* it has no run's folder: it is set up, saves nothing and logs nothing */
  int lock;              /* on the run's folder, the option out, by the caller: the session takes it over, also when it
                            fails; -1: none */
} hd_session_use;

HD_TOOLS_API hd_status hd__session_create(hd_session **out, hd_ctx *ctx, const hd_config *config,
                                          const hd_session_use *use);

/* ---- The steps of a run, and the loader workers that read their samples: session_state.c ---- */

/* The sample of its epoch that a step begins with. */
static inline int64_t hd__session_cursor(const hd_session *s, int64_t index) {
  return index % s->run.steps_per_epoch * s->run.batch;
}

/* Fills in step number `index` of the run, counted from 0, whose epoch has been shuffled. */
void hd__session_describe(hd_step *step, const hd_session *session, int64_t index);

/* Creates loader workers for the session's training samples, beside these threads; *out is NULL without workers.
 * `repeats`: as in hd_batches_settings. */
hd_status hd__session_batches(hd_batches **out, hd_ctx *ctx, hd_session *session, const hd_threads *threads,
                              int workers, int64_t repeats);

/* Creates those of the session, if it has some. */
hd_status hd__session_start_workers(hd_session *session, hd_ctx *ctx);

/* The fetch of an executor that trains: from the workers, or from the feed if `batches` is NULL. */
hd_status hd__session_read(const hd_session *session, hd_batches *batches, hd_ctx *ctx, const hd_step *step,
                           int64_t first, int64_t rows, const hd_slots *to);

/* ---- From a configuration to a session that is ready to train: session_setup.c ---- */

/* In which sessions a step of the set-up is taken. */
typedef enum hd_setup_when {
  HD_SETUP_ALWAYS,
  HD_SETUP_NEW,     /* they begin a run */
  HD_SETUP_RESUMED, /* they continue one */
  HD_SETUP_REHEARSED,
  HD_SETUP_KEPT /* they have a run's folder */
} hd_setup_when;

/* A step of the set-up. What it needs and makes are words: a word is made before all steps that need it. */
typedef struct hd_setup_step {
  const char *name, *needs, *makes;
  hd_status (*take)(hd_session *session, hd_ctx *ctx);
  hd_setup_when when;
} hd_setup_step;

/* All steps in their order. */
const hd_setup_step *hd__session_steps(int *count);

/* Takes them: everything from the configuration up to the first step of the training. */
hd_status hd__session_setup(hd_session *session, hd_ctx *ctx, bool rehearses);

/* ---- Plans, stores and executors for the session's device: session_equip.c ---- */

/* Creates plans and the store, without weights; executors; both. */
hd_status hd__session_make_plans(hd_session *session, hd_ctx *ctx);
hd_status hd__session_make_executors(hd_session *session, hd_ctx *ctx);
hd_status hd__session_equip(hd_session *session, hd_ctx *ctx);

/* The stage of a run with --unfreeze to which a step (counted from 0), or the next one, belongs: new plans and
 * executors on the same weights, unless they are there. All ranks; no step may run. */
hd_status hd__session_stage_for(hd_session *session, hd_ctx *ctx, int64_t step);
hd_status hd__session_enter_stage(hd_session *session, hd_ctx *ctx);
bool hd__session_is_in_stage(const hd_session *session);

/* Whether all samples have the same shift, so that a plan may add it. */
bool hd__session_shift(float *shift, hd_session *session);

/* Destroys these, and closes the device; the threads stay. */
void hd__session_unequip(session_compute *compute);

/* ---- Moving between devices: session_device.c ---- */

/* For a session that is set up. --device auto: times a few steps on the CPU and on the first GPU, without a trace, and
 * continues where they were faster, or on the device of the resumed run; a GPU that cannot be used is reported, and no
 * failure. The second is for the end of a training on the CPU that --device did not leave open: whether a GPU is idle,
 * which it notes. */
hd_status hd__device_settle(hd_session *session, hd_ctx *ctx);
bool hd__device_note_idle(hd_session *session);

/* ---- The run's folder: run_folder.c ---- */

/* Locks the run that is resumed, if it continues in its folder, before anything of it is read: a process that still
 * writes it would remove checkpoints meanwhile. */
hd_status hd__session_lock_resumed(hd_session *session, hd_ctx *ctx);

/* Opens the run's folder, its record and its metrics file, and what saves into it. All ranks. */
hd_status hd__session_open_run(hd_session *session, hd_ctx *ctx);

/* ---- Samples that cannot be read, with --on-error skip: session_skips.c ---- */

/* Shares the list of skipped samples that a rank of this host could not read: all its ranks leave them out and count
 * them. All ranks. */
hd_status hd__session_share_skips(hd_session *session, hd_ctx *ctx);

/* Marks samples that a rank of another host could not read as left out on this host too. All ranks. */
hd_status hd__session_spread_skips(hd_session *session, hd_ctx *ctx);

/* Writes the number of samples that could not be read so far to report and record. */
hd_status hd__session_count_skips(hd_session *session, hd_ctx *ctx);

/* ---- history.jsonl, a line for each start and end of the run, and for texts between: run_history.c ---- */

/* Finds whether anything is left to do: a resume without is no part of the run. */
hd_status hd__session_find_end(hd_session *session, hd_ctx *ctx);

hd_status hd__session_open_history(hd_session *session, hd_ctx *ctx);

/* A text of --sample-every, after the last step. */
hd_status hd__session_note_sample(const hd_session *session, hd_ctx *ctx, const char *text);

/* `status`: how the run ended, with `message` if it failed. */
hd_status hd__session_close_history(hd_session *session, hd_ctx *ctx, hd_status status, const char *message);

/* ---- metrics.jsonl, a line for each logged step and for each evaluation: metrics_log.c ---- */

/* Opens the file of the run's folder, with the earlier lines of the file in `from`: the same folder, or the run's
 * earlier one. Lines after the resumed step are removed: they are written again. */
hd_status hd__session_open_metrics(hd_session *session, hd_ctx *ctx, const char *from);

/* Fails if a line, or an event of --tensorboard, could not be written. */
hd_status hd__session_check_metrics(hd_session *session, hd_ctx *ctx);

/* Writes the line of the last evaluation to metrics.jsonl. */
void hd__session_log_evaluation(hd_session *session);

/* Adds the values of --metric to a line, "val_f1" and "test_f1"; of a metric of the program "val_metric" and
 * "test_metric". */
void hd__session_note_metric(json_t *line, const hd_session *session);

/* Adds what the last evaluation found of outputs with targets of their own: output_record.c. */
hd_status hd__session_note_outputs(json_t *line, const hd_session *s, hd_ctx *ctx);

/* Adds how hard each character of a text was in the last evaluation: output_record.c. */
void hd__session_note_characters(json_t *line, const hd_session *s);

/* Writes the last step's line to metrics.jsonl, if the step is logged. */
void hd__session_log(hd_session *session);

/* ---- The end of a region of training: step_end.c ---- */

/* Whether step number `step`, counted from 1, is followed by an evaluation. */
bool hd__session_evaluates_after(const hd_session *session, int64_t step);

/* Completes the last step of a region: its checkpoint and, unless the run was stopped, its evaluation if one is due.
 * Collective over all ranks, like the calls below. */
hd_status hd__session_end_region(hd_session *session, hd_ctx *ctx, bool stopped);

/* With --ema: the average becomes the weights that evaluations read, on each host. Calls of all ranks. */
hd_status hd__session_load_average(hd_session *session, hd_ctx *ctx);

/* --sample-every: whether the network writes texts while it is trained: a resumed run goes on without them where it
 * cannot, a new one is refused; and after a step that is due, a text, as an event. Calls of all ranks. */
enum { HD_SAMPLE_TOKENS = 240, HD_SAMPLE_BYTES = (HD_SAMPLE_TOKENS + 1) * HD_TOKEN_BYTES };
bool hd__session_shows_texts(const hd_session *session);
hd_status hd__session_check_samples(const hd_session *session, hd_ctx *ctx);
hd_status hd__session_sample(hd_session *session, hd_ctx *ctx);

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

/* ---- The picture of the most confident mistakes: step_end.c ---- */

/* Draws the most confident mistakes of the last evaluation to OUT/wrong.png. */
hd_status hd__session_draw_wrong(hd_session *session, hd_ctx *ctx);
