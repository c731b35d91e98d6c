/* Moving a session between devices. */
#ifndef HD_TRAIN_SESSION_SESSION_MOVE_H
#define HD_TRAIN_SESSION_SESSION_MOVE_H

#include "train/session/session_state.h"

/* Continues on another device, a GPU or with NULL the threads, with the bits of the last whole version. The session
 * owns the GPU from now on; on failure the session stays on its device, and the GPU is closed. No region may run. */
hd_status hd__session_move(hd_session *session, hd_ctx *ctx, hd_cuda *cuda);

#endif
