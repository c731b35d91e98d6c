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
#pragma once

#include "exec/exchange/cluster_faults.h"
#include "exec/exchange/cluster_transfer.h"
#include "exec/exchange/local_group.h"
#include "exec/exchange/transfer_tags.h"

typedef struct hd_cluster hd_cluster;

/* Starts the transport and assigns ranks to hosts; a call of all ranks of the job. Ranks with the same
 * HEDDLE_HOST_ID are on one host; where it is not set, ranks with the same boot id and host name are. `by`: the
 * launcher, for messages. `ranks`: the number that the launcher gave, -1: none. */
hd_status hd__cluster_open(hd_cluster **out, hd_ctx *ctx, const char *by, int ranks);
void hd__cluster_close(hd_cluster *cluster, bool all_is_well);

/* A rank of another host did not come in time, and may never end: closing the cluster then waits for no rank. */
void hd__cluster_await_none(hd_local_group *local);

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
bool hd__cluster_is_one_host(const hd_local_group *local);
bool hd__cluster_leads(const hd_local_group *local); /* whether this process sends to other hosts: there are some */
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

/* `text` must be the same on all ranks: a line "NAME<tab>VALUE" for each thing that they have in common, in one order.
 * HD_E_USAGE names the first that differs, the ranks and two values. A call of all ranks. */
hd_status hd__cluster_compare(hd_local_group *local, hd_ctx *ctx, const char *text);

/* Allocates the lowest tags for a group, from `from` on, that no group of this rank uses: returns the first of them, or
 * HD_TRANSPORT_TAGS if none are free. Freeing tag 0, or no tag of a group, does nothing. Any thread. */
int32_t hd__cluster_take_tags(hd_local_group *local, int32_t from);
void hd__cluster_free_tags(hd_local_group *local, int32_t tag);
