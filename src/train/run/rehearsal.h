/* A rehearsal: times the steps of a session's first epoch, on separate threads or on the session's device. Weights
 * start as the session's and are discarded; nothing is written, and the session's state does not change. */
#pragma once

#include "base/tools_api.h"
#include "train/run/session.h"

typedef struct hd_rehearsal hd_rehearsal;

/* HD_E_USAGE for a configuration with several processes, stages or a GPU: threads of this process rehearse. */
HD_TOOLS_API hd_status hd__rehearsal_check(hd_ctx *ctx, const hd_config *config);

/* The session must be set up, its feed shuffled, and outlive the rehearsal. The rehearsal owns the threads from now on,
 * even on failure; NULL: it uses the session's executor, whose weights are restored at the rehearsal's end. `workers`
 * read its samples; with 0 the threads do. */
HD_TOOLS_API hd_status hd__rehearsal_create(hd_rehearsal **out, hd_ctx *ctx, hd_session *session, hd_threads *threads,
                                            int workers);
HD_TOOLS_API void hd__rehearsal_destroy(hd_rehearsal *rehearsal);

/* The number of threads that the system gave. */
HD_TOOLS_API int hd__rehearsal_threads(const hd_rehearsal *rehearsal);

/* Trains exactly `steps` steps. */
HD_TOOLS_API hd_status hd__rehearsal_steps(hd_rehearsal *rehearsal, hd_ctx *ctx, int64_t steps);

/* Trains for `seconds`, two steps at least, and returns the speed without the first step, which wakes the threads. */
HD_TOOLS_API hd_status hd__rehearsal_time(double *samples_per_s, hd_rehearsal *rehearsal, hd_ctx *ctx, double seconds);

/* Of the last call that timed steps: the work done, and its time. */
typedef struct hd_paced {
  double samples, seconds;
} hd_paced;

hd_paced hd__rehearsal_paced(const hd_rehearsal *rehearsal);

/* Of the last call: seconds until its last step was done. */
double hd__rehearsal_spent(const hd_rehearsal *rehearsal);

/* The digest of the present weights. */
HD_TOOLS_API hd_status hd__rehearsal_digest(char hex[65], hd_rehearsal *rehearsal, hd_ctx *ctx);
