/* A rehearsal: the steps of a session's first epoch on lanes of its own, or on the session's device, to be timed.
 * Weights start as the session's and are thrown away; nothing is written, and the session itself does not move. */
#ifndef HD_TRAIN_REHEARSAL_H
#define HD_TRAIN_REHEARSAL_H

#include "train/session.h"

typedef struct hd_rehearsal hd_rehearsal;

/* The session must be set up, its feed shuffled, and outlive the rehearsal, which owns the lanes from now on, even if
 * it fails; NULL: with the session's own executor, whose weights come back with the rehearsal's end. `workers` read its
 * samples, or with 0 the lanes do. */
hd_status hd__rehearsal_create(hd_rehearsal **out, hd_ctx *ctx, hd_session *session, hd_lanes *lanes, int workers);
void hd__rehearsal_destroy(hd_rehearsal *rehearsal);

/* Threads that came. */
int hd__rehearsal_threads(const hd_rehearsal *rehearsal);

/* Trains exactly `steps` steps. */
hd_status hd__rehearsal_steps(hd_rehearsal *rehearsal, hd_ctx *ctx, int64_t steps);

/* Trains for `seconds`, two steps at least, and tells how fast: without the first step, which wakes the lanes. */
hd_status hd__rehearsal_time(double *samples_per_s, hd_rehearsal *rehearsal, hd_ctx *ctx, double seconds);

/* Of the last call that timed steps: what was done, and how long it took. */
typedef struct hd_paced {
  double samples, seconds;
} hd_paced;

hd_paced hd__rehearsal_paced(const hd_rehearsal *rehearsal);

/* Of the last call: seconds until its last step was done. */
double hd__rehearsal_spent(const hd_rehearsal *rehearsal);

/* Of the weights as they are. */
hd_status hd__rehearsal_digest(char hex[65], hd_rehearsal *rehearsal, hd_ctx *ctx);

#endif
