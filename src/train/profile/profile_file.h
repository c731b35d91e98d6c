/* Writing a profile's trace file. */
#ifndef HD_TRAIN_PROFILE_PROFILE_FILE_H
#define HD_TRAIN_PROFILE_PROFILE_FILE_H

#include "train/profile/profile.h"

/* Writes the file and computes the shares; waits until the other ranks call it too, unless one is lost. */
hd_status hd__profile_write(hd_profiler *profiler, hd_ctx *ctx);

#endif
