/* What is known of the best number of threads and their placement: a small file that remembers, and a search in a
 * fraction of a second.
 *
 * The file is ~/.cache/heddle/threads.json, or in the folder that HEDDLE_CACHE names: one entry per model, batch,
 * machine and what was asked of the placement. It is a cache: what cannot be read counts as absent, what cannot be
 * written is not. */
#ifndef HD_TRAIN_BEST_THREADS_H
#define HD_TRAIN_BEST_THREADS_H

#include "train/session.h"

typedef struct hd_best {
  int threads; /* 0: nothing is known */
  hd_placement_policy placement;
  double samples_per_s;
} hd_best;

/* The best for the session's model, batch, instruction set and this machine. */
hd_best hd__best_threads_recall(const hd_session *session);

/* `asked`: for which askers; NULL: those to whom any placement will do. */
void hd__best_threads_remember(const hd_session *session, const char *asked, const hd_best *best);

/* For a session that is set up and would run on as many threads as it has: tries fewer of them, in steps that are
 * thrown away, for a twentieth of the run and at most 0.3 s; not where all do nearly all they could, nor for a run of a
 * few steps. What it finds is not remembered: it was true of this moment. */
hd_best hd__best_threads_search(hd_session *session, hd_ctx *ctx);

#endif
