/* Runs a plan's phases, step after step, on a device: one interface, which each kind of device fills with a table of
 * functions. What uses an executor does not ask which device it has: a device has settings of its own, says in its
 * table what it can do, and reports what it alone knows by name (exec/facts.h).
 *
 * A step allocates nothing and takes no lock; all that can fail fails in hd__exec_create.
 *
 * Steps and samples are pulled from a source. Thread 0 gets the next step while the other threads reduce, and reports
 * results; every thread fetches the samples of its rows. None of that may depend on the layout.
 *
 * Several ranks run the same plan together. Each rank has an executor with its threads and a source; all ranks make
 * the same calls, and the work of thread 0 is done in each process by its first thread. Threads are numbered across
 * ranks. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "exec/facts.h"
#include "exec/trace.h"
#include "exec/weight_store.h"
#include "plan/plan.h"
#include "platform/threads.h"

/* One step, as its source describes it. */
typedef struct hd_step {
  int64_t samples; /* 1 .. batch */
  int64_t cursor;  /* where its samples start in the epoch */
  int64_t number;  /* of the run's steps, counted from 0 */
  uint64_t seed;   /* with the epoch and the samples' places in it, keys of random numbers */
  uint32_t epoch;
  hd_hyper hyper[HD_MAX_GROUPS]; /* one per group of the plan */
  float divisor;                 /* of the loss's gradient, and of the step's mean */
  float share;                   /* in that of several steps: the same, or 0 where no sample counts */
  float average_share;           /* weight of the new weights in the average; 0: it stays as it is, 1: it becomes
                                    them */
  bool average_replaces;         /* afterwards it becomes the weights */
  bool reports;                  /* afterwards the times of other hosts' ranks are read */
} hd_step;

/* Memory for fetched samples: row r at x + r * x_stride, its target at row r of `target`. For a device that gathers
 * samples itself: their indices alone. */
typedef struct hd_slots {
  int32_t *sample; /* receives the indices, and nothing else is written; NULL: samples are written */
  float *x;
  int64_t x_stride;
  void *target; /* int32_t class numbers, or floats */
  int64_t target_stride;
  int32_t outputs; /* numbers of a target, floats unless each sample has several classes; 0: one class number */
  float *weight;   /* of samples, target_stride apart; NULL: not asked for */
  void *scratch;   /* fetch_bytes, per thread */
} hd_slots;

/* The place of weights that follow targets. */
static inline float *hd__weight_after(void *target, const hd_plan_io *io) {
  return io->weighs ? (float *)target + (io->target_outputs > 0 ? io->target_outputs : 1) : NULL;
}

enum { HD_TABLE_MAX_CHANNELS = 4 };

/* All samples of a source, where they stay in memory, so that a device may gather them itself: bytes or floats in
 * planes, at most four, x = fma(element, scale, shift) of the channel, with class numbers as targets. */
typedef struct hd_sample_table {
  const void *data;
  const int32_t *labels;
  int64_t count, elems, plane;
  bool bytes;
  float scale[HD_TABLE_MAX_CHANNELS], shift[HD_TABLE_MAX_CHANNELS];
} hd_sample_table;

/* Flags that threads raise at a barrier. */
enum { HD_FLAG_NOT_FINITE = 1, HD_FLAG_STOP = 2, HD_FLAG_NO_DATA = 4 };

/* Where steps and samples come from. */
typedef struct hd_step_source {
  void *self;
  /* Thread 0: fills *step; false if there is no further step. An evaluation does not call it. */
  bool (*next)(void *self, hd_step *step);
  /* Any thread: samples [first, first + rows) of the step, normalised, with their targets. After a failure the step
   * does not count, and the run ends with the error of the lowest position. */
  hd_status (*fetch)(void *self, hd_ctx *ctx, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to);
} hd_step_source;

/* Receives a step's result, the sum of its samples' losses, added in order. Thread 0 calls it with the source's `self`
 * before the closing barrier, where it returns flags to raise there (HD_FLAG_STOP), and again, with `counts`, after the
 * closing barrier of a step that counts. */
typedef uint32_t hd_report_fn(void *self, const hd_step *step, double loss_sum, bool counts);

typedef struct hd_executor hd_executor;

/* Where each of some stages runs on one host: that of a stage. */
static inline int hd__stage_host(int stage, int stages, int hosts) { return stage * hosts / stages; }

typedef struct hd_exec_settings {
  const hd_executor *executor; /* the functions of the device, */
  void *own;                   /* and its own settings, filled where it is opened: see its header. NULL: none */
  int64_t batch;
  int32_t shards;                 /* power of two */
  int32_t micro_batches;          /* accumulation: power of two <= shards */
  double clip_norm;               /* > 0 with a plan that clips */
  int64_t fetch_bytes;            /* per-thread memory for fetching; may be 0 */
  hd_local_group *local;          /* the ranks that share each step; NULL: this process alone */
  const hd_sample_table *samples; /* of the source. NULL: they can only be fetched */
  int32_t unreported; /* training: steps that the source lets run before the first of them is reported, at least 1 */
} hd_exec_settings;

/* The results of an evaluation, per sample. */
typedef struct hd_exec_outcome {
  float *loss;
  int32_t *guess;     /* index of the first of the largest scores; for log odds whether they are above 0; of a sample
                         with several places at how many it is the label, -1: that is not known */
  float *probability; /* of the guess; may be NULL */
  float *score;       /* all of a sample's scores, one sample after the other; may be NULL */
  uint8_t *classes;   /* the guess of each place, of at most 255 classes, one sample after the other; may be NULL */
  float *place_loss;  /* of each place the cross-entropy with its label, whatever the weights, NAN: that is not known;
                         one sample after the other; may be NULL */
} hd_exec_outcome;

/* An executor: the functions of its device, and what they work on. */
typedef struct hd_exec {
  const hd_executor *device;
  void *self;
  hd_local_group *local;
} hd_exec;

/* The plan, store, threads and local group must outlive the executor. */
hd_status hd__exec_create(hd_exec **out, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_threads *threads,
                          const hd_exec_settings *settings);
HD_TOOLS_API void hd__exec_destroy(hd_exec *exec); /* NULL is allowed */

/* Runs steps until the source has no more or a flag stops the run. Errors: that of the fetch if samples could not be
 * read; HD_E_NOTFINITE, which names the parameter or the loss; HD_E_PEER if a rank is lost. The store then holds
 * the last whole version. *flags receives the flags of the last closing barrier. */
hd_status hd__exec_run(hd_exec *exec, hd_ctx *ctx, const hd_step_source *source, hd_report_fn *report, uint32_t *flags);

/* Forward and loss only, for `samples` samples in order: fetch is called with a step of that many samples. */
hd_status hd__exec_evaluate(hd_exec *exec, hd_ctx *ctx, const hd_step_source *source, int64_t samples,
                            const hd_exec_outcome *out);

/* Whether one of this process's threads fetches one of the rows [first, first + rows) of a step of `samples`
 * samples. */
bool hd__exec_fetches(const hd_exec *exec, int64_t samples, int64_t first, int64_t rows);

/* What the device alone knows, by name: writes entries of the fact's type, for which the caller has room, to *out, or
 * none if it is NULL. Returns their number, 0: the device has no such fact. */
int hd__exec_facts(void *out, const hd_exec *exec, hd_fact fact);

/* Makes the device record its work from the next run on. The trace must outlive the executor. */
hd_status hd__exec_trace(hd_exec *exec, hd_ctx *ctx, hd_trace *trace);

/* The size of a trace of this executor's steps, with about `slices` slices in all. */
hd_trace_size hd__exec_trace_size(const hd_exec *exec, int64_t slices);

/* The time that the threads of each rank have spent in steps so far, in nanoseconds added over threads: per rank
 * HD_SPENT_KINDS sums, then its waiting for each rank (see exec/exchange/thread_times.h). All 0 without other ranks.
 * Times of other hosts date from the last step that reports and are present on the first host only. Callable at any
 * time, from any thread. */
void hd__exec_spent(int64_t *sums, const hd_exec *exec);

/* Where each stage runs on one host, that host alone has the weights and states of its layers: gives the first host
 * those of all, of the last version; and gives each host its own from the first one. Else both do nothing. Calls of
 * all ranks. */
hd_status hd__exec_collect(hd_exec *exec, hd_ctx *ctx);
hd_status hd__exec_spread(hd_exec *exec, hd_ctx *ctx);

/* Bytes of the executor's memory on this host: arenas, batch memory, gradients. */
int64_t hd__exec_bytes(const hd_exec *exec);

/* An executor's memory in bytes, by use; the sum is the segment's size before rounding to pages. */
typedef struct hd_exec_memory {
  int64_t activations; /* arenas, batch memory, scratch */
  int64_t fetch;       /* settings.fetch_bytes of all threads */
  int64_t gradients;   /* sums that are still to be reduced */
  int64_t bookkeeping;
  int64_t mapped;                       /* all of it, in whole pages */
  int64_t stage_arenas[HD_MAX_STAGES];  /* of activations: of the threads of each stage, */
  int32_t stage_threads[HD_MAX_STAGES]; /* and the number of those */
} hd_exec_memory;

/* The memory that an executor of these settings would take with `threads` threads. HD_E_UNSUPPORTED: the device cannot
 * tell. */
hd_status hd__exec_measure(hd_exec_memory *out, hd_ctx *ctx, const hd_plan *plan, int threads,
                           const hd_exec_settings *settings);

/* ---- For the devices ---- */

/* Why samples could not be read. */
typedef struct hd_fetch_fault {
  hd_status status;
  int64_t position; /* in the epoch */
  char message[HD_MESSAGE_BYTES];
} hd_fetch_fault;

/* The caller of a run. */
typedef struct hd_exec_caller {
  const hd_step_source *source;
  hd_report_fn *report;
  pthread_mutex_t lock; /* held to write `fault` */
  hd_fetch_fault fault; /* of the lowest position */
} hd_exec_caller;

/* Fetches samples from the source; returns flags to raise at the step's closing barrier: HD_FLAG_NO_DATA after a
 * failure, which is kept. */
uint32_t hd__exec_fetch(hd_exec_caller *caller, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to);

/* What a device can do, and the functions that do it, each as the one of that name above. If samples could not be read,
 * `run` and `evaluate` return HD_OK with that flag, unless a step before was not finite. `spent` adds to sums that are
 * 0. */
struct hd_executor {
  bool threads_compute;    /* those of the process; else they fetch samples, and the first one waits for the device */
  bool versions_in_store;  /* the store has every version; else the device has, and the store the last of a run */
  bool runs_stages;        /* plans of several stages */
  bool recomputes;         /* a cheap value costs less to compute again than to keep: not where each node is a launch */
  bool guards;             /* has memory without access behind the values of a guarded plan */
  int64_t evaluates_bytes; /* of values that keep it busy in evaluations; 0: any number */
  hd_status (*create)(void **self, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_threads *threads,
                      const hd_exec_settings *settings);
  void (*destroy)(void *self);
  hd_status (*run)(void *self, hd_ctx *ctx, hd_exec_caller *caller, uint32_t *flags);
  hd_status (*evaluate)(void *self, hd_ctx *ctx, hd_exec_caller *caller, int64_t samples, const hd_exec_outcome *out,
                        uint32_t *flags);
  bool (*fetches)(const void *self, int64_t samples, int64_t first, int64_t rows);
  int (*facts)(void *out, const void *self, hd_fact fact); /* NULL: none */
  hd_status (*trace)(void *self, hd_ctx *ctx, hd_trace *trace);
  hd_trace_size (*trace_size)(const void *self, int64_t slices);
  void (*spent)(int64_t *sums, const void *self);
  hd_status (*collect)(void *self, hd_ctx *ctx); /* NULL: nothing to do */
  hd_status (*spread)(void *self, hd_ctx *ctx);  /* likewise */
  int64_t (*bytes)(const void *self);            /* NULL: 0 */
  hd_status (*measure)(hd_exec_memory *out, hd_ctx *ctx, const hd_plan *plan, int threads,
                       const hd_exec_settings *settings); /* NULL: it cannot tell */
};

struct hd_exchange;

/* The first waiting thread of a host publishes the results of an evaluation: host h has those of the samples
 * [first[h], first[h + 1]). */
void hd__exec_publish_outcome(struct hd_exchange *exchange, const hd_exec_outcome *out, const int64_t *first,
                              const hd_plan_io *io);

/* Writes a sample's outcome from its scores. */
void hd__exec_write_places(const hd_exec_outcome *out, int64_t sample, const float *score, const hd_plan_io *io,
                           const int32_t *label);
void hd__exec_write_outcome(const hd_exec_outcome *out, int64_t sample, const float *score, const hd_plan_io *io);

/* The error that ends a run: names the parameter whose update is not finite, -1: the loss. */
hd_status hd__exec_not_finite(hd_ctx *ctx, const hd_plan *plan, int32_t param);
