/* Publishing a run for tools that list jobs. */
#ifndef HD_TRAIN_SESSION_PUBLISH_JOB_H
#define HD_TRAIN_SESSION_PUBLISH_JOB_H

#include "train/session/session_state.h"

/* Opens the session's page, which the ranks of a host share. All ranks. */
hd_status hd__session_publish(hd_session *session, hd_ctx *ctx);

#endif
