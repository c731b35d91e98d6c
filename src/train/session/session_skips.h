/* Samples that cannot be read, with --on-error skip: all ranks leave them out, and report and record count them. */
#ifndef HD_TRAIN_SESSION_SESSION_SKIPS_H
#define HD_TRAIN_SESSION_SESSION_SKIPS_H

#include "train/session/session_state.h"

/* Shares the marks of samples that a rank of this host could not read: all its ranks leave them out and count them.
 * All ranks. */
hd_status hd__session_share_skips(hd_session *session, hd_ctx *ctx);

/* Marks samples that a rank of another host could not read as left out on this host too. All ranks. */
hd_status hd__session_spread_skips(hd_session *session, hd_ctx *ctx);

/* Writes the number of samples that could not be read so far to report and record. */
hd_status hd__session_count_skips(hd_session *session, hd_ctx *ctx);

#endif
