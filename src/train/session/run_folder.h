/* The run's folder: its name, its lock, and what it holds before the first step. */
#ifndef HD_TRAIN_SESSION_RUN_FOLDER_H
#define HD_TRAIN_SESSION_RUN_FOLDER_H

#include "train/session/session_state.h"

/* Locks the run that is resumed, if it continues in its folder, before anything of it is read: a process that still
 * writes it would remove checkpoints meanwhile. */
hd_status hd__session_lock_resumed(hd_session *session, hd_ctx *ctx);

/* Opens the run's folder, its record and its metrics file, and what saves into it. All ranks. */
hd_status hd__session_open_run(hd_session *session, hd_ctx *ctx);

#endif
