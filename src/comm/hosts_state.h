/* What hosts.c and hosts_move.c share: the hosts of a job, as one rank knows them. */
#ifndef HD_COMM_HOSTS_STATE_H
#define HD_COMM_HOSTS_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "comm/hosts.h"

enum { HD_HOSTS_ID_BYTES = 192 };

typedef struct hd_host {
  int first;   /* place of its first rank */
  int32_t pid; /* of its leader */
  char name[HD_FAULT_HOST_BYTES];
} hd_host;

struct hd_hosts {
  const hd_transport *transport;
  hd_world *world; /* NULL before it was entered */
  int rank, ranks, count, mine;
  hd_host *host; /* one more than there are */
  int *member;   /* ranks, host after host */
  uint64_t nonce;
  char id[HD_HOSTS_ID_BYTES];
  hd_segment board; /* of gathers */
  hd_transfer *hearing;
  hd_fault heard, telling;
  atomic_int told;
  _Atomic double hurried_s; /* since when; 0: not */
  pthread_mutex_t lock;     /* of: */
  hd_movement *resting;
  bool taken[HD_HOSTS_MOST_GROUPS]; /* tags, by groups of this rank */
};

/* Breaks the world: a rank of a host that is not heard of. */
void hd__hosts_give_up(hd_hosts *hosts, int rank, hd_fault_kind kind, int32_t seconds, const char *text);

/* Frees the movements that rest. */
void hd__hosts_free_movements(hd_hosts *hosts);

#endif
