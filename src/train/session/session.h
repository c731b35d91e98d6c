/* Creating sessions inside the library; heddle/session.h has their other calls. */
#ifndef HD_TRAIN_SESSION_SESSION_H
#define HD_TRAIN_SESSION_SESSION_H

#include "base/tools_api.h"
#include "train/session/session_state.h"

/* A session whose steps the ranks of a local group share: all ranks create one, with the same configuration except for
 * the layout. The group outlives it. */
hd_status hd__session_create_in(hd_session **out, hd_ctx *ctx, const hd_config *config, hd_local_group *local);

/* A session without a run's folder: it is set up, saves nothing and logs nothing. */
HD_TOOLS_API hd_status hd__session_rehearse(hd_session **out, hd_ctx *ctx, const hd_config *config);

#endif
