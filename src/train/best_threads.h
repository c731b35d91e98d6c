/* What is known of the best number of threads: a small file that remembers, and a search in a fraction of a second.
 *
 * The file is ~/.cache/heddle/threads.json, or in the folder that HEDDLE_CACHE names: one entry per model, batch and
 * machine. It is a cache: what cannot be read counts as absent, what cannot be written is not. */
#ifndef HD_TRAIN_BEST_THREADS_H
#define HD_TRAIN_BEST_THREADS_H

#include "train/session.h"

/* Remembered for the session's model, batch, instruction set and this machine; 0: nothing. */
int hd__best_threads_recall(const hd_session *session);

void hd__best_threads_remember(const hd_session *session, int threads, double samples_per_s);

/* For a session that is set up and would run on as many threads as it has: tries fewer, in 0.3 s of steps that are
 * thrown away, and returns the best. A run that takes no longer than some seconds is not worth a search: 0. */
int hd__best_threads_search(hd_session *session, hd_ctx *ctx);

#endif
