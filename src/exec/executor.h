/* Runs a plan's phases, step after step, on threads or on GPUs: one interface, which each kind of device fills with a
 * table of functions. What uses an executor does not depend on the device; only the settings of its creation name it.
 *
 * A step allocates nothing and takes no lock; all that can fail fails in hd__exec_create.
 *
 * The driver describes each step. Thread 0 gets the next step from it while the other threads reduce, and reports
 * the result after the closing barrier; every thread fetches the samples of its rows. None of that may depend on the
 * layout.
 *
 * Several ranks run the same plan together. Each rank has an executor with its threads and a driver; all ranks make
 * the same calls, and the work of thread 0 is done in each process by its first thread. Threads are numbered across
 * ranks. */
#ifndef HD_EXEC_EXECUTOR_H
#define HD_EXEC_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "exec/trace.h"
#include "exec/weight_store.h"
#include "plan/plan.h"
#include "platform/threads.h"

/* One step, as the driver describes it. */
typedef struct hd_step {
  int64_t samples; /* 1 .. batch */
  int64_t cursor;  /* where its samples start in the epoch */
  int64_t number;  /* of the run's steps, counted from 0 */
  uint64_t seed;   /* with the epoch and the samples' places in it, keys of random numbers */
  uint32_t epoch;
  hd_hyper hyper[HD_MAX_GROUPS]; /* one per group of the plan */
  float divisor;                 /* of the loss's gradient */
  bool reports;                  /* afterwards the times of other hosts' ranks are read */
} hd_step;

/* Memory for fetched samples: row r at x + r * x_stride, its target at row r of `target`. */
typedef struct hd_slots {
  float *x;
  int64_t x_stride;
  void *target; /* int32_t class numbers, or floats */
  int64_t target_stride;
  int32_t outputs; /* floats of a target; 0: class numbers */
  void *scratch;   /* fetch_bytes, per thread */
} hd_slots;

/* Samples that stay in memory, for a device that gathers them itself: bytes or floats in planes, x = fma(element,
 * scale, shift) of the channel, with class numbers as targets. */
typedef struct hd_resident {
  const void *data;
  const int32_t *labels;
  int64_t count, elems, plane;
  bool bytes;
  float scale[4], shift[4];
} hd_resident;

typedef struct hd_step_result {
  double loss_sum; /* of the samples' losses, added in order */
} hd_step_result;

/* Flags that threads raise at a barrier. */
enum { HD_FLAG_NOT_FINITE = 1, HD_FLAG_STOP = 2, HD_FLAG_NO_DATA = 4 };

typedef struct hd_driver {
  void *self;
  /* Thread 0: fills *step and returns 1, or returns 0 if there is no further step. */
  int (*next)(void *self, hd_step *step);
  /* Thread 0, before the closing barrier of a step, with its result: flags to raise there (HD_FLAG_STOP). May be
   * NULL. */
  uint32_t (*closing)(void *self, const hd_step *step, const hd_step_result *result);
  /* Thread 0, after the closing barrier of a step that counts. */
  void (*done)(void *self, const hd_step *step, const hd_step_result *result);
  /* Any thread: samples [first, first + rows) of the step, normalised, with their targets. Returns flags to raise at
   * the step's closing barrier: HD_FLAG_NO_DATA if they could not be read; then the step does not count. */
  uint32_t (*fetch)(void *self, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to);
  /* With resident samples, in place of fetch: writes the indices of the step's samples. */
  void (*choose)(void *self, const hd_step *step, int32_t *sample);
  /* After a run that HD_FLAG_NO_DATA ended: the error. NULL where a fetch cannot fail. */
  hd_status (*why)(void *self, hd_ctx *ctx);
} hd_driver;

typedef struct hd_executor hd_executor;

typedef struct hd_exec_settings {
  const hd_executor *executor; /* the functions of the device: hd__cpu_executor or hd__gpu_executor */
  int64_t batch;
  int32_t shards;        /* power of two */
  int32_t micro_batches; /* accumulation: power of two <= shards */
  hd_op update;          /* an UPDATE operation */
  double clip_norm;      /* > 0 with a plan that clips */
  int64_t fetch_bytes;   /* per-thread memory for fetching; may be 0 */
  hd_local_group *local; /* the ranks that share each step; NULL: this process alone */
  struct hd_cuda *cuda;  /* the GPU that computes, for which the plan was made; threads fetch. NULL: threads compute */
  bool native;           /* of a GPU: its libraries compute the calls where they are faster, */
  int precision;         /* with factors of this precision: hd_cuda_precision */
  const hd_resident *resident; /* copied to the GPU if it fits; then `choose` is called. NULL: none */
  int32_t lookahead; /* of a GPU: steps that may be queued before the first is reported to the driver, at least 1 */
} hd_exec_settings;

/* The results of an evaluation, per sample. */
typedef struct hd_exec_outcome {
  float *loss;
  int32_t *guess;     /* index of the first of the largest scores; for a single score whether it is above 0 */
  float *probability; /* of the guess; may be NULL */
  float *score;       /* all of a sample's scores, one sample after the other; may be NULL */
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

/* Runs steps until the driver has no more or a flag stops the run. Errors: the driver's `why` if samples could not
 * be read; HD_E_NOTFINITE, which names the parameter or the loss; HD_E_PEER if a rank is lost. The store then holds
 * the last whole version. *flags receives the flags of the last closing barrier. */
hd_status hd__exec_run(hd_exec *exec, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags);

/* Forward and loss only, for `samples` samples in order: fetch is called with a step of that many samples. */
hd_status hd__exec_evaluate(hd_exec *exec, hd_ctx *ctx, const hd_driver *driver, int64_t samples,
                            const hd_exec_outcome *out);

/* Whether one of this process's threads fetches one of the rows [first, first + rows) of a step of `samples`
 * samples. */
bool hd__exec_fetches(const hd_exec *exec, int64_t samples, int64_t first, int64_t rows);

/* How several GPUs add their gradients: "tree" or "NCCL 2.28.3"; "" for one GPU and for threads. The second: the reason
 * why NCCL is not used although it was requested, else "". The executor owns both texts. */
const char *hd__exec_gpu_sums(const hd_exec *exec);
const char *hd__exec_gpu_sums_why(const hd_exec *exec);

/* Makes threads, or host and GPU, record their work from the next run on. The trace must outlive the executor. */
hd_status hd__exec_trace(hd_exec *exec, hd_ctx *ctx, hd_trace *trace);

/* The size of a trace of this executor's steps, with about `slices` slices in all. */
hd_trace_size hd__exec_trace_size(const hd_exec *exec, int64_t slices);

/* The time that the threads of each rank have spent in steps so far, in nanoseconds added over threads: per rank
 * HD_SPENT_KINDS sums, then its waiting for each rank (see exec/thread_times.h). All 0 without other ranks. Times of
 * other hosts date from the last step that reports and are present on the first host only. Callable at any time, from
 * any thread. */
void hd__exec_spent(int64_t *sums, const hd_exec *exec);

/* Bytes of the executor's memory on this host: arenas, batch memory, gradients. */
int64_t hd__exec_bytes(const hd_exec *exec);

/* ---- For the devices ---- */

/* What a device's executor does; each function as the one of that name above. If samples could not be read, `run` and
 * `evaluate` return HD_OK with that flag, unless a step before was not finite. `spent` adds to sums that are 0. */
struct hd_executor {
  hd_status (*create)(void **self, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_threads *threads,
                      const hd_exec_settings *settings);
  void (*destroy)(void *self);
  hd_status (*run)(void *self, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags);
  hd_status (*evaluate)(void *self, hd_ctx *ctx, const hd_driver *driver, int64_t samples, const hd_exec_outcome *out,
                        uint32_t *flags);
  bool (*fetches)(const void *self, int64_t samples, int64_t first, int64_t rows);
  const char *(*gpu_sums)(const void *self); /* NULL: "" */
  const char *(*gpu_sums_why)(const void *self);
  hd_status (*trace)(void *self, hd_ctx *ctx, hd_trace *trace);
  hd_trace_size (*trace_size)(const void *self, int64_t slices);
  void (*spent)(int64_t *sums, const void *self);
  int64_t (*bytes)(const void *self); /* NULL: 0 */
};

/* Writes a sample's outcome from its scores. */
void hd__exec_write_outcome(const hd_exec_outcome *out, int64_t sample, const float *score, int32_t classes);

/* The error that ends a run: names the parameter whose update is not finite, -1: the loss. */
hd_status hd__exec_not_finite(hd_ctx *ctx, const hd_plan *plan, int32_t param);

#endif
