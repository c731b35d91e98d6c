/* The summary of a profile: the shares of the threads' time inside kept steps, by operation, and of waiting between
 * threads. Operations of one layer and direction count together, as does all work on parameters. */
#ifndef HD_TRAIN_PROFILE_PROFILE_SHARES_H
#define HD_TRAIN_PROFILE_PROFILE_SHARES_H

#include "train/profile/profile.h"

/* Computes the shares: fills in profiler->result. */
hd_status hd__profile_sum(hd_profiler *profiler, hd_ctx *ctx);

#endif
