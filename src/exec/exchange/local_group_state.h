/* The state of a local group in one process, and the memory file of the group: shared by the files of the local group.
 * local_group.h describes the file. */
#pragma once

#include "exec/exchange/local_group.h"
#include "platform/process.h"

typedef struct rank_slot {
  _Alignas(128) atomic_int state;
  int32_t pid;
  uint64_t start;
  _Atomic int64_t step;
} rank_slot;

typedef struct gather_slot {
  uint32_t bytes;
  _Alignas(8) char data[HD_LOCAL_GROUP_GATHER_BYTES];
} gather_slot;

/* A block of the file. */
typedef struct shared_block {
  atomic_int held;      /* see local_group_memory.c */
  int64_t offset, room; /* room: its size; -1: the file could not grow for it */
  int64_t bytes;        /* that were requested */
  uint64_t number;      /* later allocations have higher ones */
  char name[HD_LOCAL_GROUP_NAME_BYTES];
} shared_block;

typedef struct group_head {
  _Atomic uint64_t magic;
  uint32_t version;      /* of heddle: a hash */
  int32_t ranks, parent; /* parent: pid, 0: none */
  uint64_t parent_start;
  atomic_uint joined;     /* slept on */
  _Atomic int64_t used;   /* of the file */
  atomic_int blocks;      /* entries of the table in use, free ones included */
  _Atomic uint64_t taken; /* number of allocations */
} group_head;

struct hd_local_group {
  int fd, rank, ranks;
  unsigned process; /* that joined it: a child of that is no rank */
  hd_segment map;
  group_head *head;
  hd_fault_record *record; /* notes of each rank, and of the founder, which is no rank */
  atomic_bool notes;       /* a thread of this process records a fault, or did */
  rank_slot *slot;
  gather_slot *place;
  shared_block *block;
  hd_barrier barrier;
  hd_barrier_watch barrier_watch;
  struct hd_watch *watch;   /* see rank_watch.h; NULL: no watcher */
  atomic_bool acknowledged; /* a fault: the watcher does not end the process */
  uint64_t gathers;
  double timeout_s;
  int64_t next_group;
  int cache; /* -2: not looked up yet */
  _Atomic(struct hd_cluster *) cluster;
  char host[HD_FAULT_HOST_BYTES];
};

/* Sets the addresses of the parts before the blocks, unless `base` is NULL; returns their size. */
size_t hd__local_group_lay_out(hd_local_group *local, char *base, int ranks);

/* Whether a rank's process ended before the rank left, and how. Whether it has left is read last: it may leave and end
 * between two looks. */
bool hd__local_group_lost(hd_process_state *process, const hd_local_group *group, int rank);

/* The parent's pid and start, 0: none. */
int hd__local_group_parent(const hd_local_group *local, uint64_t *start);
