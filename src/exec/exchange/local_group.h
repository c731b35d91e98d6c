/* The local group: the ranks of one run on a host, their shared memory, their barrier, and the detection of lost
 * ranks.
 *
 * A local group is an anonymous memory file, sealed against shrinking. The process that starts the ranks creates it
 * and passes its descriptor on, or a rank creates it and sends it to the others; it is freed with the last process
 * that holds it.
 *
 *     offset 0     head: magic, ranks, parent, sizes in use
 *     notes        one per rank, and one of the founder: the faults that they detected, and which is published
 *     slots        one per rank, which alone writes it: its process, its last step
 *     lines        one per rank: the barrier
 *     gathers      two slots per rank, used by even and odd gathers
 *     blocks       the table of shared blocks: offset, name, number of ranks that map it
 *     2 MiB * n    the blocks: memory that ranks allocated together. A block that no rank maps has no pages and is
 *                  reused for its size: sessions and groups may come and go during the run
 *
 * A rank that ends without leaving, that is stopped, or that does not reach a barrier until the timeout breaks the
 * group: every wait ends within a fraction of a second, with HD_E_PEER and a line that names the rank. A broken
 * group stays broken.
 *
 * NULL is the local group of a single process: rank 0 of 1, with private memory. All ranks make the calls in the
 * same order, each from one thread, unless the call says otherwise. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "exec/exchange/fault.h"
#include "platform/barrier.h"
#include "platform/segment.h"

enum {
  HD_LOCAL_GROUP_MOST_RANKS = 1024,
  HD_LOCAL_GROUP_GATHER_BYTES = 2112,
  HD_LOCAL_GROUP_BLOCKS = 4096,
  HD_LOCAL_GROUP_NAME_BYTES = 64
};

typedef struct hd_local_group hd_local_group;

/* The state of a rank, in its slot. */
enum { HD_RANK_ABSENT, HD_RANK_JOINING, HD_RANK_JOINED, HD_RANK_LEFT };

typedef struct hd_rank_view {
  int32_t state, pid;
  uint64_t start; /* of the process, see hd__process_start */
  int64_t step;   /* the last complete one; -1: none is counted */
} hd_rank_view;

int hd__local_group_rank(const hd_local_group *local);
int hd__local_group_ranks(const hd_local_group *local);
int hd__local_group_fd(const hd_local_group *local);
bool hd__local_group_is_parented(const hd_local_group *local);

/* Any time, any process that holds the group. */
hd_rank_view hd__local_group_view(const hd_local_group *local, int rank);

/* Memory shared by all ranks, zeroed, released with hd__segment_destroy. HD_E_USAGE unless all ranks pass the same
 * arguments. */
hd_status hd__local_group_memory(hd_segment *out, hd_local_group *local, hd_ctx *ctx, size_t bytes, const char *what);

/* Allocates a block of `bytes`, zeroed, that `holders` ranks are going to map; the caller passes its number on to them.
 * HD_E_USAGE: all HD_LOCAL_GROUP_BLOCKS are in use. Any rank, any thread, any time. */
hd_status hd__local_group_allocate(int32_t *block, hd_local_group *local, hd_ctx *ctx, size_t bytes, int holders);

/* The error of a block whose allocation failed with `why` in another rank. */
hd_status hd__local_group_no_block(hd_ctx *ctx, hd_status why, const char *what);

/* Frees an allocated block that no rank is going to map. */
void hd__local_group_release(hd_local_group *local, int32_t block);

/* Maps a block: each holder once. It is free when all have destroyed it. */
hd_status hd__local_group_map(hd_segment *out, hd_local_group *local, hd_ctx *ctx, int32_t block, const char *what);

/* Maps the newest block of this name that ranks hold, for a process that is no rank. HD_E_USAGE: there is none. */
hd_status hd__local_group_find(hd_segment *out, hd_local_group *local, hd_ctx *ctx, const char *what);

/* All-gather of `bytes` of each rank, at most HD_LOCAL_GROUP_GATHER_BYTES, in the order of ranks. Writes to shared
 * memory before it are visible to all ranks after it. */
hd_status hd__local_group_gather(void *all, hd_local_group *local, hd_ctx *ctx, const void *input, size_t bytes);

/* A gather of nothing. */
hd_status hd__local_group_barrier(hd_local_group *local, hd_ctx *ctx);

/* A rank that does not come is named on its own host first. So a wait for another host takes this much longer until its
 * timeout, and a wait for a leader, which may wait for one, twice as much. */
enum { HD_OTHER_HOST_S = 2 };

/* The timeout of barriers, in seconds: a running rank that has not come by then counts as lost. 60 at first. */
void hd__local_group_set_timeout(hd_local_group *local, double seconds);
double hd__local_group_timeout(const hd_local_group *local);

/* The number of the L3 cache of the CPUs that the calling thread may use; -1: several, unknown, or too few ranks for
 * that to matter. Determined once. */
int hd__local_group_cache(hd_local_group *local);

/* The lowest number that the next group of this rank may have: above those of all earlier groups of its ranks. */
int64_t hd__local_group_next_group(const hd_local_group *local);
void hd__local_group_set_next_group(hd_local_group *local, int64_t number);

/* The cluster that the local group belongs to, NULL: the group is the whole job; see cluster.h. */
struct hd_cluster *hd__local_group_cluster(const hd_local_group *local);
void hd__local_group_set_cluster(hd_local_group *local, struct hd_cluster *cluster);
const char *hd__local_group_host_name(const hd_local_group *local);

/* Records the number of complete steps of this rank. Any thread. */
void hd__local_group_step(hd_local_group *local, int64_t step);

/* Breaks the group: this rank cannot go on. Any thread. */
void hd__local_group_give_up(hd_local_group *local, const char *why);

/* The word that barriers of the ranks' threads poll, nonzero when the group is broken; and the call that they make
 * while they wait for `rank`, which breaks the group after the timeout. Any thread. */
const atomic_uint *hd__local_group_broken_word(const hd_local_group *local);
void hd__local_group_late(hd_local_group *local, int rank, int64_t waited_ns);

/* HD_OK, or HD_E_PEER with the line of the fault that broke the group. Returning HD_E_PEER acknowledges the fault.
 * Without an acknowledgement the watcher ends the process some time after the group broke, with that line on
 * standard error and exit status 1. Any thread. */
hd_status hd__local_group_check(hd_local_group *local, hd_ctx *ctx);

/* Acknowledges any later fault in advance: the watcher does not end this process when the group breaks. */
void hd__local_group_keep_process(hd_local_group *local);

/* Of a broken group: whether this rank has to do the emergency save. The parent does it where there is one, else the
 * first rank that is left. */
bool hd__local_group_is_saver(const hd_local_group *local);

/* Reads the fault; records one, for a process that is no rank. */
bool hd__local_group_fault(hd_fault *out, const hd_local_group *local);
void hd__local_group_break(hd_local_group *local, const hd_fault *fault);
