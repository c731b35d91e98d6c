/* The thread-count experiment: training speed of a configuration on this machine, by number of threads and
 * placement.
 *
 *     static hd_tune tune = {.struct_bytes = sizeof tune};
 *     const hd_tune_request request = {.struct_bytes = sizeof request, .seconds = 15};
 *     hd_tune_run(&tune, ctx, config, &request);
 *     printf("%d threads, %s\n", tune.settings[tune.best].threads,
 *            hd_choice_name(HD_OPT_PLACEMENT, tune.settings[tune.best].placement));
 *
 * Settings are measured in repeated turns, so that other load on the machine affects all of them alike. Before that
 * every setting trains the same steps, and the weights must have the same digest: the proof that the layout never
 * changes the result. Only the best setting is saved; `threads` = auto then uses it.
 *
 * Thread safety: run one experiment at a time in a process; concurrent ones disturb each other. A result is
 * immutable. */
#ifndef HEDDLE_TUNE_H
#define HEDDLE_TUNE_H

#include <stddef.h>
#include <stdint.h>

#include "heddle/config.h"
#include "heddle/session.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_TUNE_MAX_SETTINGS = 64 };

/* What a sweep varies. */
enum {
  HD_TUNE_THREADS = 1,   /* every number of threads up to the CPUs; of many CPUs powers of two and quarters */
  HD_TUNE_PLACEMENT = 2, /* every policy of heddle/topology.h; those that give the same CPUs are measured once */
  HD_TUNE_WORKERS = 4    /* 0, 1, 2 and 4 loader workers, as far as there are CPUs */
};

/* Called after each turn, when `done` of `seconds` have passed. Non-zero ends the experiment with the turns so far. */
typedef int hd_tune_progress_fn(void *user, double done, double seconds);

typedef struct hd_tune_request {
  size_t struct_bytes; /* sizeof(hd_tune_request) */
  double seconds;      /* of measuring, 0.1 to 86400 */
  uint32_t
      sweep; /* HD_TUNE_... added up; 0: threads, and placement unless the configuration sets it or a list of CPUs */
  hd_tune_progress_fn *progress; /* may be NULL */
  void *user;
} hd_tune_request;

/* A number of threads, their placement, and a number of loader workers. Speeds in samples per second: the median
 * over the turns, and the bounds of its 95 % confidence interval. Speed-up is against one thread, efficiency is
 * speed-up per thread. */
typedef struct hd_tune_setting {
  int32_t threads, workers;
  int32_t placement; /* of hd_placement_choice; -1: the configuration's list of CPUs */
  uint32_t same;     /* bit p is set where p of hd_placement_choice is another that gives these CPUs in this order */
  int32_t turns;     /* how often it was measured */
  double samples_per_s, low, high, speedup, efficiency;
} hd_tune_setting;

typedef struct hd_tune {
  size_t struct_bytes;                         /* sizeof(hd_tune) */
  char model[64], data[64], isa[16], cpu[128]; /* cpu: the processor's name */
  int64_t batch;
  int32_t cpus;                                   /* that this process may use */
  hd_tune_setting settings[HD_TUNE_MAX_SETTINGS]; /* by threads; the first has one, and the fewest workers */
  int32_t count, best; /* best: an index; among statistically equal settings the fewest threads */
  /* Over the settings of the best one's placement and workers: */
  double amdahl;                                /* Amdahl's law: the share of the work that does not run in parallel */
  double contention, coherence, predicted_best; /* the universal scalability law; INFINITY: without a limit */
  int64_t proof_steps;                          /* trained by every setting before measuring, */
  char weights_sha256[HD_SHA256_TEXT_BYTES];    /* to this digest */
  double seconds;                               /* of the whole experiment */
  double load;  /* CPUs that other processes kept busy meanwhile, on average; NAN: unknown */
  int32_t busy; /* they slowed it down: the result is not kept */
} hd_tune;

/* Runs the experiment. If threads are not varied, the configuration's number is used, and one thread for comparison.
 * HD_E_USAGE for seconds or a sweep out of range, for a sweep over placements where the configuration sets one, for one
 * of more than HD_TUNE_MAX_SETTINGS settings, and for a configuration with several processes, stages or a GPU;
 * HD_E_SYSTEM if two settings trained to different digests; else as hd_session_create. A run that the configuration
 * resumes is read, and neither locked nor written. The best setting is stored in the cache if threads were varied
 * and CPUs were not listed. */
HD_API hd_status hd_tune_run(hd_tune *out, hd_ctx *ctx, const hd_config *config, const hd_tune_request *request);

/* S(n) of the fitted universal scalability law: the expected speed-up of `threads` threads. */
HD_API double hd_tune_predict(const hd_tune *tune, double threads);

#ifdef __cplusplus
}
#endif
#endif
