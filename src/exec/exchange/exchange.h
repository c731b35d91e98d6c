/* The exchange of a step's sums between the threads or GPUs of a run, whichever ranks and hosts they are on.
 *
 * Units, threads or GPUs, are numbered host after host, rank after rank. Those of a host share memory: each writes its
 * sums there, and the barrier makes them visible to the others. The first waiting thread of a host exchanges what
 * the hosts have filled, over the cluster's transport; with one host there is nothing to exchange.
 *
 *     begin     numbers the units of all ranks
 *     publish   names an array in which each host has filled its range
 *     wait      the barrier of a host, which also carries flags
 *     finish    the first waiting thread receives the other hosts' ranges of what was published, and their flags
 *
 * The waiting threads are those that wait for each other at the barrier: every compute thread, or for GPUs one host
 * thread of each rank. With other ranks each has an account of its time (thread_times.h); waiting is charged to the
 * rank of the last one to arrive. */
#pragma once

#include "exec/exchange/cluster.h"
#include "exec/exchange/thread_times.h"
#include "platform/threads.h"

enum { HD_EXCHANGE_BLOCKS = 6 };

typedef struct hd_exchange {
  hd_local_group *local;
  int hosts, host, ranks; /* of the job; this host */
  int count, first, here; /* units of all ranks; this process has [first, first + here) */
  int32_t *host_first;    /* host h has the units [host_first[h], host_first[h + 1]) */
  int32_t *rank_first;    /* likewise ranks of this host */
  bool by_rank;           /* one waiting thread for each rank, else for each unit */
  hd_barrier barrier;
  hd_barrier_watch watch;
  /* In memory of the host: */
  hd_barrier_line *lines;
  char *tallies;   /* of the waiting threads; NULL without other ranks */
  int64_t *spent;  /* sums of the accounts of all ranks, host after host, as last received */
  uint32_t *flags; /* of hosts, then the OR of them */
  /* Of the first waiting thread: */
  hd_blocks block[HD_EXCHANGE_BLOCKS];
  int blocks;
  int64_t *bytes;     /* of blocks, a number for each host */
  int32_t waited_for; /* the rank of another host, since the last barrier; -1: none */
} hd_exchange;

/* Numbers the units: this process has `here`. A call of all ranks of the job. */
hd_status hd__exchange_begin(hd_exchange *x, hd_ctx *ctx, hd_local_group *local, int here, bool by_rank);
void hd__exchange_end(hd_exchange *x);

/* Places the host's memory at `base`, zeroed and aligned to 128 bytes, unless that is NULL; returns its size. */
int64_t hd__exchange_lay_out(hd_exchange *x, void *base);

/* Opens the barrier, which groups this process's `threads` by cache; NULL: one waiting thread for each rank.
 * `crowded`: the threads have to share CPUs. A call of all ranks of the host. */
hd_status hd__exchange_open(hd_exchange *x, hd_ctx *ctx, const hd_threads *threads, bool crowded);

/* This process's first waiting thread, numbered among those of its host; their number. */
int hd__exchange_first_thread(const hd_exchange *x);
int hd__exchange_threads(const hd_exchange *x);

/* The rank in the job of a waiting thread of this host. */
int hd__exchange_rank(const hd_exchange *x, int thread);

/* The account of a waiting thread; NULL: there are no other ranks. */
hd_tally *hd__exchange_tally(const hd_exchange *x, int thread);

/* The next barrier of this host; returns the OR of all flags, or HD_BARRIER_BROKEN. */
uint32_t hd__exchange_wait(hd_exchange *x, int thread, uint32_t flags);

/* Called by the first waiting thread: names an array in which the ranges of all hosts lie one after the other. Returns
 * the array for their sizes in bytes. */
int64_t *hd__exchange_publish(hd_exchange *x, void *data);

/* Called by the first waiting thread: exchanges what was published since the last exchange, and `slices` and flags
 * unless these are NULL; with `reports` the first host receives the accounts of all ranks. False: the local group is
 * broken, and the caller must not wait at the next barrier, where the other threads detect that. */
bool hd__exchange_finish(hd_exchange *x, const hd_slices *slices, const uint32_t *flags, bool reports);

/* The OR of the flags of all hosts, at the last exchange that had some; after a barrier. */
uint32_t hd__exchange_flags(const hd_exchange *x);

/* Called by each waiting thread: a barrier, the exchange of what the first one published, a barrier. Returns the
 * flags of all hosts, or HD_BARRIER_BROKEN. */
uint32_t hd__exchange_all(hd_exchange *x, int thread, uint32_t flags, bool reports);

/* The time of the waiting threads of all ranks, as hd__exec_spent. */
void hd__exchange_spent(int64_t *sums, const hd_exchange *x);
