/* Settings that the ranks of a run must have in common before the first step. */
#ifndef HD_TRAIN_SESSION_SETTINGS_AGREEMENT_H
#define HD_TRAIN_SESSION_SETTINGS_AGREEMENT_H

#include "train/session/session_state.h"

/* Compares the settings of the experiment, the model, the data and the library of --arithmetic native: HD_E_USAGE names
 * the first difference. */
hd_status hd__agree(hd_session *session, hd_ctx *ctx);

#endif
