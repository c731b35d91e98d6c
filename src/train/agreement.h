/* What the ranks of a run must have in common before they take a step together. */
#ifndef HD_TRAIN_AGREEMENT_H
#define HD_TRAIN_AGREEMENT_H

#include "train/session.h"

/* The settings of the experiment, the model, the data and the library of the arithmetic native: HD_E_USAGE names the
 * first that differs. */
hd_status hd__agree(hd_session *session, hd_ctx *ctx);

#endif
