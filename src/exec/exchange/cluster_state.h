/* The state of a cluster in one rank, and what needs no local group: the local group calls it when it breaks. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "exec/exchange/fault.h"
#include "exec/exchange/transfer_tags.h"
#include "platform/segment.h"

enum { HD_CLUSTER_ID_BYTES = 192 };

typedef struct hd_host {
  int first;               /* place of its first rank */
  int32_t pid;             /* of its leader */
  hd_transfer *fault_send; /* to its leader */
  char name[HD_FAULT_HOST_BYTES];
} hd_host;

struct hd_cluster {
  const hd_transport *transport;
  struct hd_local_group *local; /* NULL before it was entered */
  int rank, ranks, count, this_host;
  hd_host *host; /* one entry more than hosts */
  int *member;   /* ranks, host after host */
  uint64_t nonce;
  char id[HD_CLUSTER_ID_BYTES];
  hd_segment board;          /* of gathers; behind them left_s */
  _Atomic double *left_s;    /* of each rank of the job: when this host noted that it has left; 0: it has not */
  hd_transfer *left_receive; /* leaders: the number of a rank that has left, into */
  int32_t received_left;
  int32_t *sent_left;      /* leaders, for each rank of this host: its number if it was reported to other hosts,
                              else -1 */
  hd_transfer **left_send; /* and the transfers to each host */
  hd_transfer *fault_receive;
  hd_fault received_fault, sent_fault;
  atomic_int fault_sends;
  atomic_bool awaits_none;            /* at its end: see hd__cluster_await_none */
  _Atomic double shortened_s;         /* since when; 0: not shortened */
  pthread_mutex_t lock;               /* protects what follows */
  struct hd_cluster_exchange *unused; /* see cluster_transfer.h */
  bool taken[HD_CLUSTER_MOST_GROUPS]; /* tags, by groups of this rank */
};

/* The place of a rank of the job, host after host; its host; the rank of the job that is `local_rank` on this host, or
 * `local_rank` without a cluster. */
int hd__cluster_place_of(const struct hd_cluster *cluster, int rank);
int hd__cluster_host_of(const struct hd_cluster *cluster, int rank);
int hd__cluster_global_rank(const struct hd_cluster *cluster, int local_rank);

/* Sends the fault that broke the local group to the other hosts, once; allocates nothing. NULL is allowed. */
void hd__cluster_send_fault(struct hd_cluster *cluster, const hd_fault *fault);
