/* From a configuration to a session that is ready to train. */
#ifndef HD_TRAIN_SESSION_SESSION_SETUP_H
#define HD_TRAIN_SESSION_SESSION_SETUP_H

#include "train/session/session_state.h"

/* Everything from the configuration up to the first step: settings, data, model, plan, memory, weights. */
hd_status hd__session_setup(hd_session *session, hd_ctx *ctx);

/* Creates plans, the store without weights, and executors, for the GPU in `cuda` or the threads. */
hd_status hd__session_equip(hd_session *session, hd_ctx *ctx, int32_t shards);

#endif
