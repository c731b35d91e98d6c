/* metrics.jsonl: a line for each logged step, and one for each evaluation. */
#ifndef HD_TRAIN_SESSION_METRICS_LOG_H
#define HD_TRAIN_SESSION_METRICS_LOG_H

#include "train/session/session_state.h"

/* Opens the file of the run's folder. Lines after the resumed step are removed: they are written again. */
hd_status hd__session_open_metrics(hd_session *session, hd_ctx *ctx);

/* Fails if a line could not be written. */
hd_status hd__session_check_metrics(hd_session *session, hd_ctx *ctx);

/* Writes the line of an evaluation to metrics.jsonl, if there is a validation split. */
void hd__session_log_validation(hd_session *session);

/* Writes the last step's line to metrics.jsonl, if the step is logged. */
void hd__session_log(hd_session *session);

#endif
