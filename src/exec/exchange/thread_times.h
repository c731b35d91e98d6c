/* The time of the threads of several ranks: for samples, for waiting per rank, and for everything else.
 *
 * Each thread has an account in memory of the local group. Only that thread writes it; any thread may read it at any
 * time. An entry ends where the next one begins, so an entry costs one clock read.
 *
 *     account of a thread:  | since | data | compute | waiting | for rank 0 | for rank 1 | ...
 *
 * The rank waited for: each thread writes its arrival time into its line of the barrier, which the other threads read
 * anyway; waiting is charged to the rank of the last thread to arrive. The ranks of one host share a clock.
 *
 * A process without other ranks has no accounts: the functions accept NULL and do nothing. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "platform/clock.h"

typedef enum hd_spent {
  HD_SPENT_DATA,    /* samples: read by the thread, or copied from loader workers, waiting included */
  HD_SPENT_COMPUTE, /* everything else of a step */
  HD_SPENT_WAITING, /* at barriers */
  HD_SPENT_KINDS
} hd_spent;

typedef struct hd_tally {
  _Alignas(128) int64_t since_ns; /* begin of the current entry */
  _Atomic int64_t spent_ns[HD_SPENT_KINDS];
  _Atomic int64_t for_ns[]; /* per rank: the waiting for its threads */
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

/* Ends the current entry, as `spent`. */
static inline void hd__tally_end(hd_tally *tally, hd_spent spent) {
  if (!tally)
    return;
  const int64_t now_ns = hd__clock_ns();
  hd__tally_count(&tally->spent_ns[spent], now_ns - tally->since_ns);
  tally->since_ns = now_ns;
}

/* Ends the current entry as waiting for `rank`; -1: this thread arrived last. */
static inline void hd__tally_waited(hd_tally *tally, int rank) {
  if (!tally)
    return;
  const int64_t began_ns = tally->since_ns;
  hd__tally_end(tally, HD_SPENT_WAITING);
  if (rank >= 0)
    hd__tally_count(&tally->for_ns[rank], tally->since_ns - began_ns);
}

/* Adds an account to a sum of `HD_SPENT_KINDS + ranks` numbers: spent_ns, then for_ns. */
void hd__tally_add(int64_t *sum, const hd_tally *tally, int ranks);
