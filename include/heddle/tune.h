/* The thread-count experiment: how fast a configuration trains at each number of threads on this machine.
 *
 * Settings are measured in turns, over and over, so that whatever else the machine does hits all of them alike. Before
 * that every setting trains the same steps, and the weights must have the same digest: the proof that threads never
 * change the result. Nothing is saved but the best setting, which `threads` = auto then takes. */
#ifndef HEDDLE_TUNE_H
#define HEDDLE_TUNE_H

#include <stdint.h>

#include "heddle/config.h"
#include "heddle/session.h"
#include "heddle/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HD_TUNE_MAX_SETTINGS = 64 };

/* One number of threads. Speeds in samples a second: the median over the turns, and the bounds of its 95 % confidence
 * interval. Speed-up is against one thread, efficiency is speed-up per thread. */
typedef struct hd_tune_setting {
  int32_t threads;
  int32_t turns; /* how often it was measured */
  double samples_per_s, low, high, speedup, efficiency;
} hd_tune_setting;

typedef struct hd_tune {
  char model[64], data[64], isa[16], cpu[128]; /* cpu: the processor's name */
  int64_t batch;
  int32_t cpus; /* that this process may use */
  hd_tune_setting settings[HD_TUNE_MAX_SETTINGS];
  int32_t count, best; /* best: an index; of settings that cannot be told apart, the one with the fewest threads */
  double amdahl;       /* Amdahl's law: the share of the work that does not run in parallel */
  double contention, coherence, predicted_best; /* the universal scalability law; INFINITY: without a limit */
  int64_t proof_steps;                          /* trained by every setting before it was measured, */
  char weights_sha256[HD_SHA256_TEXT_BYTES];    /* to this digest */
  double seconds;                               /* that all of it took */
} hd_tune;

/* Called after each turn: `done` of `seconds` are over. Non-zero ends the experiment with what it has. */
typedef int hd_tune_progress_fn(void *user, double done, double seconds);

/* Runs the experiment for about `seconds` (0.1 to 86400). HD_E_SYSTEM if two settings trained to different digests.
 * `progress` may be NULL. The result goes to the cache of best settings. */
HD_API hd_status hd_tune_run(hd_tune *out, hd_ctx *ctx, const hd_config *config, double seconds,
                             hd_tune_progress_fn *progress, void *user);

/* S(n) of the fitted universal scalability law: the speed-up to expect of `threads` threads. */
HD_API double hd_tune_predict(const hd_tune *tune, double threads);

#ifdef __cplusplus
}
#endif
#endif
