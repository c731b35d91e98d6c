/* The state of a cluster in one rank, shared by cluster.c and cluster_transfer.c. */
#ifndef HD_EXEC_EXCHANGE_CLUSTER_STATE_H
#define HD_EXEC_EXCHANGE_CLUSTER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "exec/exchange/cluster.h"

enum { HD_CLUSTER_ID_BYTES = 192 };

typedef struct hd_host {
  int first;   /* place of its first rank */
  int32_t pid; /* of its leader */
  char name[HD_FAULT_HOST_BYTES];
} hd_host;

struct hd_cluster {
  const hd_transport *transport;
  hd_local_group *local; /* NULL before it was entered */
  int rank, ranks, count, this_host;
  hd_host *host; /* one entry more than hosts */
  int *member;   /* ranks, host after host */
  uint64_t nonce;
  char id[HD_CLUSTER_ID_BYTES];
  hd_segment board; /* of gathers */
  hd_transfer *fault_receive;
  hd_fault received_fault, sent_fault;
  atomic_int fault_sends;
  _Atomic double shortened_s; /* since when; 0: not shortened */
  pthread_mutex_t lock;       /* protects what follows */
  hd_cluster_exchange *unused;
  bool taken[HD_CLUSTER_MOST_GROUPS]; /* tags, by groups of this rank */
};

/* Breaks the local group with a fault of a rank of another host. */
void hd__cluster_give_up(hd_cluster *cluster, int rank, hd_fault_kind kind, int32_t seconds, const char *text);

/* Frees the exchanges in the list of unused ones. */
void hd__cluster_free_exchanges(hd_cluster *cluster);

#endif
