/* The steps of a run: which samples, with which learning rate; and the loader workers that read these samples. */
#ifndef HD_TRAIN_SESSION_SESSION_STEPS_H
#define HD_TRAIN_SESSION_SESSION_STEPS_H

#include "train/session/session_state.h"

/* Fills in step number `index` of the run, counted from 0. */
void hd__session_describe(hd_step *step, const hd_session *session, int64_t index);

/* Creates loader workers for the session's training samples, beside these threads; *out is NULL without workers.
 * `repeats`: as in hd_supply_settings. */
hd_status hd__session_supply(hd_supply **out, hd_ctx *ctx, hd_session *session, const hd_threads *threads, int workers,
                             int64_t repeats);

/* The fetch of an executor that trains: from the workers, or from the feed if `supply` is NULL. */
hd_status hd__session_read(const hd_session *session, hd_supply *supply, hd_ctx *ctx, const hd_step *step,
                           int64_t first, int64_t rows, const hd_slots *to);

#endif
