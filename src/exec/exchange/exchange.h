/* The exchange of a step's sums between the threads or GPUs of a run, whichever ranks and hosts they are on.
 *
 * Units, threads or GPUs, are numbered host after host, rank after rank. Those of a host share memory: each writes its
 * sums there, and the barrier makes them visible to the others. The first waiter of a host exchanges what the hosts
 * have filled, over the cluster's transport; with one host there is nothing to exchange.
 *
 *     begin     numbers the units of all ranks
 *     publish   names an array, of which each host has filled its range
 *     wait      the barrier of a host, which also carries flags
 *     finish    the first waiter receives the other hosts' ranges of what was published, and their flags
 *
 * At the barrier each thread waits, or for GPUs one host thread of each rank: a waiter. With other ranks each waiter
 * has an account of its time (thread_times.h); waiting is charged to the rank of the last one to come. */
#pragma once

#include "exec/exchange/cluster.h"
#include "exec/exchange/thread_times.h"
#include "platform/threads.h"

enum { HD_EXCHANGE_BLOCKS = 5 };

typedef struct hd_exchange {
  hd_local_group *local;
  int hosts, host, ranks; /* of the job; this host */
  int count, first, here; /* units of all ranks; this process has [first, first + here) */
  int32_t *host_first;    /* host h has the units [host_first[h], host_first[h + 1]) */
  int32_t *rank_first;    /* likewise ranks of this host */
  bool by_rank;           /* one waiter for each rank, else for each unit */
  hd_barrier barrier;
  hd_barrier_watch watch;
  /* In memory of the host: */
  hd_barrier_line *lines;
  char *tallies;   /* of waiters; NULL without other ranks */
  int64_t *spent;  /* sums of the accounts of all ranks, host after host, as last received */
  uint32_t *flags; /* of hosts, then the OR of them */
  /* Of the first waiter: */
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

/* Opens the barrier, which groups this process's `threads` by cache; NULL: one waiter for each rank. `crowded`: they
 * have to share CPUs. A call of all ranks of the host. */
hd_status hd__exchange_open(hd_exchange *x, hd_ctx *ctx, const hd_threads *threads, bool crowded);

/* This process's first waiter, numbered among those of its host; the number of those. */
int hd__exchange_waiter(const hd_exchange *x);
int hd__exchange_waiters(const hd_exchange *x);

/* The rank in the job of a waiter of this host. */
int hd__exchange_rank(const hd_exchange *x, int waiter);

/* The account of a waiter; NULL: there are no other ranks. */
hd_tally *hd__exchange_tally(const hd_exchange *x, int waiter);

/* The next barrier of this host; returns the OR of all flags, or HD_BARRIER_BROKEN. */
uint32_t hd__exchange_wait(hd_exchange *x, int waiter, uint32_t flags);

/* First waiter: names an array in which the ranges of all hosts lie one after the other. Returns the array for their
 * sizes in bytes. */
int64_t *hd__exchange_publish(hd_exchange *x, void *data);

/* First waiter: exchanges what was published since the last exchange, and `slices` and flags unless these are NULL;
 * with `reports` the first host receives the accounts of all ranks. Failing, it has broken the local group; the caller
 * must then not wait at the next barrier, where the others detect that. */
bool hd__exchange_finish(hd_exchange *x, const hd_slices *slices, const uint32_t *flags, bool reports);

/* The OR of the flags of all hosts, at the last exchange that had some; after a barrier. */
uint32_t hd__exchange_flags(const hd_exchange *x);

/* Each waiter: a barrier, the exchange of what the first one published, a barrier. Returns the flags of all hosts, or
 * HD_BARRIER_BROKEN. */
uint32_t hd__exchange_all(hd_exchange *x, int waiter, uint32_t flags, bool reports);

/* The time of the waiters of all ranks, as hd__exec_spent. */
void hd__exchange_spent(int64_t *sums, const hd_exchange *x);
