/* The end of a region of training: the checkpoint of its last step, the evaluation, the best checkpoint. */
#ifndef HD_TRAIN_SESSION_STEP_END_H
#define HD_TRAIN_SESSION_STEP_END_H

#include "train/session/session_state.h"

/* Whether step number `step`, counted from 1, is followed by an evaluation. */
bool hd__session_evaluates_after(const hd_session *session, int64_t step);

/* Completes the last step of a region: its checkpoint and, unless the run was stopped, its evaluation if one is due.
 * Collective over all ranks, like the calls below. */
hd_status hd__session_end_region(hd_session *session, hd_ctx *ctx, bool stopped);

/* Makes the evaluation of the last step if one is due; its checkpoint is whole before. */
hd_status hd__session_settle_evaluation(hd_session *session, hd_ctx *ctx);

/* Where training samples cannot be read: saves the last whole step. Returns `status`, and adds to the message how to
 * continue. */
hd_status hd__session_save_without_data(hd_session *session, hd_ctx *ctx, hd_status status);

/* Begins to save the last whole step, after the previous save; waits until a save is whole, or has failed. All ranks
 * wait for it, since launchers end the others soon after the first has ended. */
hd_status hd__session_begin_save(hd_session *session, hd_ctx *ctx);
hd_status hd__session_await_save(hd_session *session, hd_ctx *ctx);

/* After the step's evaluation: links `best` to its checkpoint, which is whole, if it is better than all before, and
 * removes old checkpoints. */
hd_status hd__session_mark_best(hd_session *session, hd_ctx *ctx);

#endif
