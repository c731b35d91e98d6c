/* The choice of --device auto. */
#ifndef HD_TRAIN_SESSION_BEST_DEVICE_H
#define HD_TRAIN_SESSION_BEST_DEVICE_H

#include "train/session/session_state.h"

/* For a session that is set up. --device auto: times a few steps on the CPU and on the first GPU, without a trace, and
 * continues where they were faster, or on the device of the resumed run; a GPU that cannot be used is reported, and no
 * failure. Otherwise, on the CPU: reports a GPU that is idle meanwhile. */
hd_status hd__device_settle(hd_session *session, hd_ctx *ctx);

#endif
