/* Runs a plan's phases on lanes.
 *
 * hd__exec_run owns the persistent region: lanes walk step after step through the plan's phases and meet once between
 * two. A step allocates nothing and takes no lock; what can fail fails in hd__exec_create.
 *
 * The driver says what each step is. Lane 0 asks it for the next step while the others fold, and tells it the outcome
 * after the closing meeting; samples are fetched by every lane for its own rows. None of that may depend on
 * the layout.
 *
 * Several ranks run the same plan together: each has an executor with its own lanes and a driver of its own, all make
 * the same calls, and what lane 0 does, the first lane of each rank does for its process. Lanes are numbered across
 * ranks. Memory that another lane reads lies in the world's; the rest is each process's own. */
#ifndef HD_EXEC_EXEC_H
#define HD_EXEC_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/store.h"
#include "exec/trace.h"
#include "plan/plan.h"
#include "sys/lanes.h"

/* One step, as the driver describes it. */
typedef struct hd_step {
  int64_t samples; /* 1 .. batch */
  int64_t cursor;  /* where its samples start in the epoch */
  int64_t number;  /* of the run's steps, counted from 0 */
  uint64_t seed;   /* with the epoch and the samples' places in it, keys of random numbers */
  uint32_t epoch;
  hd_hyper hyper[HD_MAX_GROUPS]; /* one per group of the plan */
  float divisor;                 /* of the loss's gradient */
  bool reports;                  /* times of other hosts' ranks are wanted behind it */
} hd_step;

/* Where fetched samples go: that of row r at x + r * x_stride, its target at row r of `target`. */
typedef struct hd_slots {
  float *x;
  int64_t x_stride;
  void *target; /* int32_t class numbers, or floats */
  int64_t target_stride;
  int32_t outputs; /* floats of a target; 0: class numbers */
  void *scratch;   /* the lane's own fetch_bytes */
} hd_slots;

/* Samples that stand in memory all the time, for a device that gathers them by itself: bytes or floats in planes, x =
 * fma(element, scale, shift) of the channel, with class numbers as targets. */
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

/* What lanes raise at a meeting. */
enum { HD_FLAG_NOT_FINITE = 1, HD_FLAG_STOP = 2, HD_FLAG_NO_DATA = 4 };

typedef struct hd_driver {
  void *self;
  /* Lane 0: fills *step and returns 1, or returns 0 if there is no further step. */
  int (*next)(void *self, hd_step *step);
  /* Lane 0, before the closing meeting of a step, with its result: flags to raise there (HD_FLAG_STOP). May be NULL. */
  uint32_t (*closing)(void *self, const hd_step *step, const hd_step_result *result);
  /* Lane 0, after the closing meeting of a step that counts. */
  void (*done)(void *self, const hd_step *step, const hd_step_result *result);
  /* Any lane: samples [first, first + rows) of the step, normalised, with their targets. Flags to raise at the step's
   * closing meeting: HD_FLAG_NO_DATA if they could not be had; then the step does not count. */
  uint32_t (*fetch)(void *self, const hd_step *step, int64_t first, int64_t rows, const hd_slots *to);
  /* With resident samples, in place of fetch: which of them the step's are. */
  void (*choose)(void *self, const hd_step *step, int32_t *sample);
  /* After the run that HD_FLAG_NO_DATA ended: why. NULL where a fetch cannot fail. */
  hd_status (*why)(void *self, hd_ctx *ctx);
} hd_driver;

typedef struct hd_exec_settings {
  int64_t batch;
  int32_t shards;       /* power of two */
  int32_t parts;        /* accumulation: power of two <= shards */
  hd_op update;         /* an UPDATE operation */
  double clip_norm;     /* > 0 with a plan that clips */
  int64_t fetch_bytes;  /* of memory that a lane fetches with; may be 0 */
  hd_world *world;      /* whose ranks' lanes share each step; NULL: this process alone */
  struct hd_cuda *cuda; /* the GPU that computes, for which the plan was made; lanes fetch. NULL: lanes compute */
  bool native;          /* of a GPU: its libraries compute what they are faster at, */
  int precision;        /* with factors rounded so: hd_cuda_precision */
  const hd_resident *resident; /* copied to the GPU if it fits, which asks `choose` then; NULL: there is none */
  int32_t lookahead; /* of a GPU: steps that may be under way before the driver hears of the first, at least 1 */
} hd_exec_settings;

typedef struct hd_exec hd_exec;

/* The plan, store, lanes and world must outlive the executor. */
hd_status hd__exec_create(hd_exec **out, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_lanes *lanes,
                          const hd_exec_settings *settings);
void hd__exec_destroy(hd_exec *exec);

/* Runs steps until the driver has no more, a flag stops the run, samples cannot be had (what the driver's `why` says),
 * or a value is not finite: HD_E_NOTFINITE names the parameter or the loss; or a rank is lost: HD_E_PEER. The store
 * holds the last whole version then. *flags gets the flags of the last closing meeting. */
hd_status hd__exec_run(hd_exec *exec, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags);

/* What an evaluation writes, per sample. */
typedef struct hd_exec_outcome {
  float *loss;
  int32_t *guess;     /* the first of the largest scores; of a single score whether it is above 0 */
  float *probability; /* of the guess; may be NULL */
  float *score;       /* all of a sample's scores, one sample after the other; may be NULL */
} hd_exec_outcome;

/* Forward and loss only, for `samples` samples in order: fetch is called with a step of that many samples. */
hd_status hd__exec_evaluate(hd_exec *exec, hd_ctx *ctx, const hd_driver *driver, int64_t samples,
                            const hd_exec_outcome *out);

/* What an executor takes, by use; the sum is the segment's size before rounding to pages. */
typedef struct hd_exec_memory {
  int64_t activations; /* arenas, batch memory, scratch */
  int64_t fetch;       /* what the fetch asked for */
  int64_t gradients;   /* sums that wait to be folded */
  int64_t bookkeeping;
  int64_t mapped; /* all of it, in whole pages */
} hd_exec_memory;

/* What hd__exec_create would take with so many lanes. */
hd_status hd__exec_measure(hd_exec_memory *out, hd_ctx *ctx, const hd_plan *plan, int lanes,
                           const hd_exec_settings *settings);

/* Whether one of this process's lanes fetches one of the rows [first, first + rows) of a step of so many samples. */
bool hd__exec_fetches(const hd_exec *exec, int64_t samples, int64_t first, int64_t rows);

/* How several GPUs add their gradients: "tree", or by "NCCL 2.28.3"; "": there are not several. And why NCCL does not,
 * where it was to; else "". Both live as long as the executor. */
const char *hd__exec_gpu_sums(const hd_exec *exec);
const char *hd__exec_gpu_sums_why(const hd_exec *exec);

/* Lets lanes, or host and GPU, record what they do from the next run on. The trace must outlive the executor. */
hd_status hd__exec_trace(hd_exec *exec, hd_ctx *ctx, hd_trace *trace);

/* What the lanes of each rank have spent in steps so far, in nanoseconds added over them: per rank HD_SPENT_KINDS sums,
 * and those of its waiting for each rank (see exec/tally.h). All 0 without other ranks. Those of other hosts are as old
 * as the last step that reports, and only the first host knows them. Any time, from any lane. */
void hd__exec_spent(int64_t *sums, const hd_exec *exec);

/* What a trace of this executor's steps needs; about `slices` of them in all. */
hd_trace_size hd__exec_trace_size(const hd_exec *exec, int64_t slices);

/* Bytes of memory that the plan made the executor take: arenas, batch memory, gradients. */
int64_t hd__exec_bytes(const hd_exec *exec);

#endif
