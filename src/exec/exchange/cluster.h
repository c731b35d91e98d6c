/* The cluster: the hosts of a job, and transfers between them.
 *
 * The ranks of each host form a local group, which shares memory and has a pointer to the cluster. The launcher
 * numbers the ranks of the job. Hosts are ordered by their lowest rank. The first rank of each local group is its
 * leader: it does the transfers between hosts.
 *
 *     rank of the job   0   1   2   3   4   5          member: 0 1 4 | 2 3 5
 *     host              0   0   1   1   0   1          leaders: ranks 0 and 2
 *
 * A host that is lost, or that reports a lost rank, breaks the local groups of all hosts. So does a host that sends
 * nothing until the timeout, and one that does not answer while the launcher ends the job.
 *
 * A local group without a cluster (started by heddle launch, or NULL) counts as a cluster of one host. */
#ifndef HD_EXEC_EXCHANGE_CLUSTER_H
#define HD_EXEC_EXCHANGE_CLUSTER_H

#include "exec/exchange/transport.h"
#include "exec/exchange/local_group.h"

typedef struct hd_cluster hd_cluster;

/* Tags of transfers; those of groups follow, two of each. */
enum { HD_TAG_HOSTS, HD_TAG_FAULT, HD_TAG_GROUPS = 16, HD_TAGS_OF_GROUP = 2 };
enum { HD_CLUSTER_MOST_GROUPS = (HD_TRANSPORT_TAGS - HD_TAG_GROUPS) / HD_TAGS_OF_GROUP };

/* Starts the transport and assigns ranks to hosts; a call of all ranks of the job. Ranks with the same
 * HEDDLE_HOST_ID are on one host; where it is not set, ranks with the same boot id and host name are. `by`: the
 * launcher, for messages. `ranks`: the number that the launcher gave, -1: none. */
hd_status hd__cluster_open(hd_cluster **out, hd_ctx *ctx, const char *by, int ranks);
void hd__cluster_close(hd_cluster *cluster, bool all_is_well);

/* The number of this process among the ranks of its host, their count, and a key that is unique to this host and
 * job. */
int hd__cluster_local_rank(const hd_cluster *cluster);
int hd__cluster_local_ranks(const hd_cluster *cluster);
void hd__cluster_key(char *text, size_t bytes, const hd_cluster *cluster);

/* The local group takes ownership of the cluster, and closes it in hd__local_group_leave. A call of all ranks of the
 * job; the cluster is closed at once on failure. */
hd_status hd__cluster_enter(hd_local_group *local, hd_ctx *ctx, hd_cluster *cluster);

/* Of the job. */
int hd__cluster_count(const hd_local_group *local);
int hd__cluster_this_host(const hd_local_group *local); /* the host of this process */
int hd__cluster_rank(const hd_local_group *local);
int hd__cluster_ranks(const hd_local_group *local);
int hd__cluster_member(const hd_local_group *local, int place); /* the rank at a place, host after host */
int hd__cluster_first(const hd_local_group *local, int host);   /* place of its first rank; host = count: the end */
int hd__cluster_of(const hd_local_group *local, int rank);      /* the host of a rank of the job */
int hd__cluster_local(const hd_local_group *local, int rank);   /* the number of that rank in its local group */
const char *hd__cluster_name(const hd_local_group *local, int host);
const char *hd__cluster_transport(const hd_local_group *local); /* "Open MPI v4.1.4"; "": there is none */

/* All-gather of `bytes` of each rank, at most HD_LOCAL_GROUP_GATHER_BYTES, in the order of the job's ranks. A call
 * of all ranks. */
hd_status hd__cluster_gather(void *all, hd_local_group *local, hd_ctx *ctx, const void *input, size_t bytes);

/* `text` must be the same in all ranks: HD_E_USAGE names the ranks that differ, `what` and both texts. */
hd_status hd__cluster_compare(hd_local_group *local, hd_ctx *ctx, const char *what, const char *text);

/* Transfers that are started together. Parts with the same peer are adjacent. */
typedef struct hd_cluster_exchange {
  hd_transfer_part *part;
  int count;
  int room; /* for parts */
  hd_transfer **transfer;
  int *peer;
  struct hd_cluster_exchange *next; /* in the list of unused ones */
} hd_cluster_exchange;

/* An empty exchange with room for `parts`. Exchanges are kept and reused, so that steps allocate nothing: running the
 * exchange returns it to the list of unused ones. NULL: out of memory. Any thread. */
hd_cluster_exchange *hd__cluster_exchange(hd_local_group *local, int parts);

/* Runs the exchange and waits for its end, at most `timeout_s`. HD_E_TIMEOUT does not break the local group;
 * *missing is a rank whose transfer has not ended. Any rank. */
hd_status hd__cluster_exchange_within(int *missing, hd_local_group *local, hd_ctx *ctx, hd_cluster_exchange *exchange,
                                      double timeout_s);

/* Starts and tests one transfer without waiting: see hd_transport. The test returns 1, 0, or -1: the local group is
 * broken then. */
hd_status hd__cluster_start(hd_transfer **out, hd_local_group *local, hd_ctx *ctx, const hd_transfer_part *parts,
                            int count);
int hd__cluster_test(hd_local_group *local, hd_transfer *transfer, int peer);

/* Allocates the lowest tags for a group, from `from` on, that no group of this rank uses: returns the first of them, or
 * HD_TRANSPORT_TAGS if none are free. Freeing tag 0, or no tag of a group, does nothing. Any thread. */
int32_t hd__cluster_take_tags(hd_local_group *local, int32_t from);
void hd__cluster_free_tags(hd_local_group *local, int32_t tag);

/* Checks for a fault reported by another host; to be called regularly in every other wait. */
void hd__cluster_poll_faults(hd_local_group *local);

/* Leaders: broadcasts `data` of the first host to all hosts. */
hd_status hd__cluster_broadcast(hd_local_group *local, hd_ctx *ctx, void *data, int64_t bytes);

/* Blocks that lie one after the other from `data` on, bytes[h] of host h. */
typedef struct hd_blocks {
  void *data;
  const int64_t *bytes;
  bool to_first; /* only the first host receives them */
} hd_blocks;

/* Rows of `stride` bytes that lie one after the other from `data` on: host h has filled [row[h], row[h + 1]), and
 * receives the bytes [from[h], from[h + 1]) of all rows. */
typedef struct hd_slices {
  void *data;
  int64_t stride;
  const int32_t *row;
  const int64_t *from;
} hd_slices;

/* Leaders: all-gather of blocks, of which host h has filled block h; `count` such arrays at once, together with
 * slices unless that is NULL. *last is the first rank of the host whose transfer ended last, -1: none; it may be
 * NULL. A failure breaks the local group, so that the barriers at which other ranks wait for this one fail, too. */
hd_status hd__cluster_join_blocks(int *last, hd_local_group *local, hd_ctx *ctx, const hd_blocks *blocks, int count,
                                  const hd_slices *slices);

/* Shortens the timeout of waits between hosts, because this process was asked to end. Async-signal-safe. */
void hd__cluster_shorten_timeout(hd_local_group *local);

/* Restores the timeout after all ranks have agreed to end. */
void hd__cluster_restore_timeout(hd_local_group *local);

/* For local_group.c: sends the fault that broke this local group to the other hosts. */
void hd__cluster_send_fault(hd_cluster *cluster, const hd_fault *fault);

/* For local_group.c: the number in the job of a rank of this host. */
int hd__cluster_global_rank(const hd_cluster *cluster, int local_rank);

#endif
