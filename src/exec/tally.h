/* Where the time of the lanes of several ranks goes: samples, waiting for whom, and everything else.
 *
 * A lane has an account of its own, in memory of all ranks, which nobody else writes; any lane may read it at any time.
 * Whatever a lane does ends an entry where the next one begins, so that an entry costs one look at the clock.
 *
 *     account of a lane:  | since | data | compute | waiting | for rank 0 | for rank 1 | ...
 *
 * Who was waited for: each lane writes into its line of the meeting when it came, which the others look at anyway; the
 * one that came last is whom all others waited for. Clocks of ranks on one host are the same.
 *
 * A process alone has no accounts: what takes one may get NULL, and does nothing then. */
#ifndef HD_EXEC_TALLY_H
#define HD_EXEC_TALLY_H

#include <stdatomic.h>
#include <stdint.h>

#include "sys/clock.h"

typedef enum hd_spent {
  HD_SPENT_DATA,    /* samples: read by the lane, or waited for and copied from loader workers */
  HD_SPENT_COMPUTE, /* everything else of a step */
  HD_SPENT_WAITING, /* at meetings, for lanes that come later */
  HD_SPENT_KINDS
} hd_spent;

typedef struct hd_tally {
  _Alignas(128) int64_t since_ns; /* the entry under way began */
  _Atomic int64_t spent_ns[HD_SPENT_KINDS];
  _Atomic int64_t for_ns[]; /* per rank: of the waiting, that for its lanes */
} hd_tally;

int64_t hd__tally_bytes(int ranks);

static inline void hd__tally_count(_Atomic int64_t *sum, int64_t ns) {
  atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + ns, memory_order_relaxed);
}

/* A region begins. */
static inline void hd__tally_start(hd_tally *tally) {
  if (tally)
    tally->since_ns = hd__clock_ns();
}

/* The entry under way was this, and ends now. */
static inline void hd__tally_end(hd_tally *tally, hd_spent spent) {
  if (!tally)
    return;
  const int64_t now_ns = hd__clock_ns();
  hd__tally_count(&tally->spent_ns[spent], now_ns - tally->since_ns);
  tally->since_ns = now_ns;
}

/* The entry under way was waiting, for this rank; -1: for nobody, all others had come. */
static inline void hd__tally_waited(hd_tally *tally, int rank) {
  const int64_t began_ns = tally->since_ns;
  hd__tally_end(tally, HD_SPENT_WAITING);
  if (rank >= 0)
    hd__tally_count(&tally->for_ns[rank], tally->since_ns - began_ns);
}

/* Adds an account to a sum of `HD_SPENT_KINDS + ranks` numbers: spent_ns, then for_ns. */
void hd__tally_add(int64_t *sum, const hd_tally *tally, int ranks);

#endif
