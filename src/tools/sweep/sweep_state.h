/* A sweep inside the library: what its jobs share, and its results.
 *
 * `mutex` guards `taken`, `ended`, `ended_count`, `status` and `failure` while jobs run. What else belongs to a run is
 * written by the job that has taken it. */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "heddle/sweep.h"
#include "platform/file.h"
#include "tools/sweep/grid.h"
#include "train/settings/run_record.h"

typedef struct sweep_run {
  int64_t steps; /* to its end */
  bool in;       /* the present round has it */
  bool taken, ended;
  char *line; /* of the table: all behind the state; NULL before the run has ended */

  /* Of the first run that reads it (sweep_source.h): the model's description as it was found, and as the data made it;
   * the checksums of the data, the library of --arithmetic native. */
  char *written, *model, *library;
  uint64_t data[HD_DATA_PARTS];
} sweep_run;

/* The lock of another process that is waited for; guarded by the mutex. */
typedef struct sweep_wait {
  int64_t run;
  hd_lock_state state;
  char who[HD_LOCK_WHO_BYTES];
  struct timespec changed; /* the run's folder */
  double since_s;          /* since when nothing of this has changed */
} sweep_wait;

struct hd_sweep {
  hd_grid grid;
  hd_config *fixed;
  json_t *kept; /* what runs read, in the file that says what is swept (sweep_source.h); NULL: there is nothing */
  char folder[HD_PATH_BYTES], asked[16], metric[16]; /* requested; "" for the default metric */
  int64_t draws, halving;
  int rounds, round; /* of successive halving, else 1 */
  int threads;       /* of a job */
  int64_t bytes;     /* the most that a run allocates */
  int *cpu, cpus;    /* listed by the option cpus */
  sweep_run *run;
  atomic_bool advanced; /* another process is past the present round */
  int64_t ended_count, trainings, best;
  double best_metric;
  sweep_wait wait;
  atomic_int stop;
  hd_status status; /* why the jobs end early */
  hd_ctx failure;
  pthread_mutex_t mutex;
  hd_sweep_event_fn *on_event;
  void *user;
  hd_sweep_row *row;
  int64_t *order;
  hd_sweep_group *group;
  hd_option_id key[HD_SWEEP_MOST_KEYS];
  int32_t is_log[HD_SWEEP_MOST_KEYS];
  char value[HD_SWEEP_VALUE_BYTES], *last; /* of the last hd_sweep_value, and where it begins */
  hd_sweep_report report;
};

/* "OUT/run-0001" for run 0. */
hd_status hd__sweep_path(char path[HD_PATH_BYTES], const hd_sweep *sweep, hd_ctx *ctx, int64_t run);

/* Fills in a sweep from a request. */
hd_status hd__sweep_plan(hd_sweep *sweep, hd_ctx *ctx, const hd_config *config, const hd_sweep_request *request);

/* Puts the run in front of the message: "run-0002 (lr 0.01, seed 3): "; returns `status`. */
hd_status hd__sweep_fail(hd_ctx *ctx, hd_status status, const hd_sweep *sweep, int64_t run);

/* Whether a run has ended the present round; reads its result if it has. `target`: the round's last step, 0 for the
 * run's end. */
bool hd__sweep_read(hd_sweep *sweep, int64_t run, const char *folder, int64_t target);

/* Writes both tables, after the last round. */
hd_status hd__sweep_conclude(hd_sweep *sweep, hd_ctx *ctx);

/* Larger for a better metric; never NAN. */
double hd__sweep_rank(const hd_sweep *sweep, double metric);

/* Sorts the runs, the best first, equal ones by their numbers. */
void hd__sweep_order(hd_sweep *sweep);

/* Writes a text as a file. */
hd_status hd__sweep_write(const hd_sweep *sweep, hd_ctx *ctx, const char *name, const char *text);

/* Reads a JSON file; NULL if there is none. */
json_t *hd__sweep_json(const char *path);
