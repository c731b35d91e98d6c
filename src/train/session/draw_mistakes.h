/* The picture of the most confident mistakes. */
#ifndef HD_TRAIN_SESSION_DRAW_MISTAKES_H
#define HD_TRAIN_SESSION_DRAW_MISTAKES_H

#include "train/session/session_state.h"

/* Draws the most confident mistakes of the last evaluation to OUT/wrong.png. */
hd_status hd__session_draw_wrong(hd_session *session, hd_ctx *ctx);

#endif
