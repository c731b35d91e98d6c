/* Sweeps: many runs that differ in some settings, side by side, in a folder that any number of processes share.
 *
 *     const char *vary[] = {"lr=0.1,0.01", "seed=0..9", NULL};
 *     hd_sweep *sweep;
 *     const hd_sweep_request request = {.struct_bytes = sizeof request, .folder = "sweeps/a", .vary = vary};
 *     hd_sweep_create(&sweep, ctx, config, &request);
 *     hd_sweep_run(sweep, ctx);
 *     printf("%s\n", hd_sweep_result(sweep)->table_sha256);
 *     hd_sweep_destroy(sweep);
 *
 * The folder holds sweep.json, what is swept; run-0001 and so on, ordinary runs; and at the end table.csv and
 * summary.csv. It is the queue, too: a process takes a run that has not ended and that no other process writes, and
 * takes over from one that was killed. The table depends on what is swept alone: its bytes are the same for any number
 * of jobs, processes and interruptions.
 *
 * Thread safety: a sweep may be used by one thread at a time, except hd_sweep_stop. Any number of processes may work on
 * one folder. */
#ifndef HEDDLE_SWEEP_H
#define HEDDLE_SWEEP_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/config.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_sweep hd_sweep;

typedef enum hd_sweep_state {
  HD_SWEEP_PENDING,
  HD_SWEEP_DONE,
  HD_SWEEP_DROPPED, /* by successive halving */
  HD_SWEEP_FAILED   /* a value was not finite */
} hd_sweep_state;

/* "pending", "done", "dropped" or "failed". Static storage. */
HD_API const char *hd_sweep_state_name(hd_sweep_state state);

/* A run that has ended, or ended a round of successive halving; with `text` a line about what this process waits for,
 * which has not ended: a run, or (-1) the folder. */
typedef struct hd_sweep_event {
  int64_t run; /* counted from 0; its folder counts from 1 */
  hd_sweep_state state;
  double metric;            /* NAN: it has none */
  int trained;              /* by this call, not by another process or an earlier one */
  int64_t ended, trainings; /* of all rounds: those that have ended, and all */
  int64_t best;             /* the run with the best metric so far; -1: none */
  double best_metric;
  const char *text; /* NULL: a run has ended. "waiting for process 7 on node3", valid during the call */
} hd_sweep_event;

/* Called on any of the threads that train, by one at a time. */
typedef void hd_sweep_event_fn(void *user, const hd_sweep_event *event);

typedef struct hd_sweep_request {
  size_t struct_bytes;     /* sizeof(hd_sweep_request) */
  const char *folder;      /* made if it is not there */
  const char *const *vary; /* "KEY=VALUES" or the path of a YAML file, ends with NULL; NULL or none: continues with
                              what the folder holds */
  int64_t draws;           /* random draws; 0: none */
  int64_t halving;         /* K of successive halving, 2 or more; 0: none */
  const char *metric;      /* test_accuracy, test_loss, val_accuracy, val_loss, train_loss; NULL: test_accuracy where
                            * there are classes, else test_loss */
  int32_t jobs;            /* runs side by side; 0: as many as CPUs, and as the memory holds */
  hd_sweep_event_fn *on_event; /* may be NULL */
  void *user;
  int64_t folds; /* N: each run once for every one of N parts of the training set, which is its test set (--fold), 2 or
                  * more; 0: none */
} hd_sweep_request;

/* Reads what is swept, checks the settings of all runs, plans the first, and makes the folder: what can fail fails
 * here, and leaves no folder. HD_E_USAGE also for the folder of another sweep, or one with a run of another model, data
 * or setting. The caller owns the sweep and ends it with hd_sweep_destroy (NULL allowed). */
HD_API hd_status hd_sweep_create(hd_sweep **out, hd_ctx *ctx, const hd_config *config, const hd_sweep_request *request);
HD_API void hd_sweep_destroy(hd_sweep *sweep);

/* Trains until all runs have ended, by this process or by others, and writes the tables. A run whose values are not
 * finite has failed, and the sweep goes on; any other failure ends it. HD_E_IO if a run is locked by a program that
 * does not train it, or by a process elsewhere that has written nothing for an hour. HD_E_INTERRUPTED after
 * hd_sweep_stop: the runs were saved. */
HD_API hd_status hd_sweep_run(hd_sweep *sweep, hd_ctx *ctx);

/* Asks hd_sweep_run to save the runs and to return. Safe in a signal handler and from any thread. */
HD_API void hd_sweep_stop(hd_sweep *sweep);

/* A run and its result. */
typedef struct hd_sweep_row {
  hd_sweep_state state;
  double metric; /* NAN: none */
} hd_sweep_row;

/* Runs that differ in nothing but the seed and the fold, of those that are done. */
typedef struct hd_sweep_group {
  int64_t first, n;                  /* the first run of the group, which has its values; those that are done */
  double mean, deviation, low, high; /* of the metric; NAN, from deviation on, for one run. low, high: the 95 %
                                          * confidence interval of the mean, by Student's t */
} hd_sweep_group;

typedef struct hd_sweep_report {
  int64_t runs, done, failed;
  int32_t keys;
  const hd_option_id *key; /* what varies */
  const int32_t *is_log;   /* of each: drawn on a logarithmic scale */
  const char *folder, *metric;
  int32_t rises; /* the best metric is the largest */
  int32_t jobs;
  const hd_sweep_row *run; /* of each; complete after hd_sweep_run, as all below */
  const int64_t *order;    /* the runs, the best first */
  int64_t groups;
  const hd_sweep_group *group; /* the best first */
  char table_sha256[65];       /* of table.csv */
} hd_sweep_report;

/* Owned by the sweep. */
HD_API const hd_sweep_report *hd_sweep_result(const hd_sweep *sweep);

/* Whether runs that differ only in this option are repetitions, whose mean is taken: the seed, and the fold. */
HD_API int hd_sweep_repeats(hd_option_id key);

/* The value of a key in a run as text, valid until the next call; with key = keys the metric, "" if it has none. */
HD_API const char *hd_sweep_value(const hd_sweep *sweep, int64_t run, int32_t key);

#ifdef __cplusplus
}
#endif
#endif
