/* The best number of threads and their placement: a small file that stores results, and a search in a fraction of a
 * second.
 *
 * The file is ~/.cache/heddle/threads.json, or in the folder that HEDDLE_CACHE names: one entry per model, batch,
 * machine and requested placement. It is a cache: unreadable content counts as absent, and failures to write are
 * ignored. */
#pragma once

#include "base/tools_api.h"
#include "platform/threads.h"
#include "train/run/session.h"

enum { HD_BEST_WHY_BYTES = 96 };

typedef struct hd_best {
  int threads; /* 0: unknown */
  hd_placement_choice placement;
  double samples_per_s;
  double load;                 /* CPUs that other processes used meanwhile; NAN: unknown */
  char why[HD_BEST_WHY_BYTES]; /* of a result that was found: "saved by `tune` on 2026-11-26" */
} hd_best;

/* The stored result for the session's model, batch, instruction set and this machine. One without a date, or that is
 * older than 30 days, counts as absent. */
hd_best hd__best_threads_recall(const hd_session *session);

/* Stores a result, with today's date. `asked`: the placement that a configuration requests; NULL: for configurations
 * that accept any. */
HD_TOOLS_API void hd__best_threads_remember(const hd_session *session, const char *asked, const hd_best *best);

/* For a session that is set up and would run on all its threads: tries fewer of them, in steps whose results are
 * discarded, for a twentieth of the run and at most 0.3 s. No search where all threads scale nearly perfectly, nor for
 * a run of a few steps. The result is not stored: it depends on the present load. */
hd_best hd__best_threads_search(hd_session *session, hd_ctx *ctx);
