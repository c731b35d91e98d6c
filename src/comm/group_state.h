/* The state of a group in one rank: some ranks of a run, their shared memory, and their barrier.
 *
 *     head         the error that ended the group
 *     lines        one per rank: the barrier, whose notes hold the call of each rank, with up to 8 bytes of data
 *     slots        per rank two slots, for even and odd rounds, and two of results
 *     mailboxes    one per pair of ranks, for send and recv
 *
 * A collective is a series of rounds. In each, a rank writes to its slot, waits at the barrier, and reads the slots
 * of the others. It may write the slot of the next round while others still read this one; the round after that uses
 * this slot again, and by then all have passed a later barrier. So a round needs one barrier, and a slot has one
 * writer.
 *
 * With ranks on several hosts each host has such memory, with slots and notes for all ranks. The ranks of a host
 * wait at the barrier, their leader exchanges slots with the leaders of the other hosts, and they wait at the
 * barrier again. Sums are then added as on one host, in the order of ranks: the same bits. Messages go from rank to
 * rank. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "exec/exchange/local_group.h"
#include "heddle/group.h"

enum { HD_GROUP_TEXT_BYTES = 512, HD_GROUP_BUFFERS = 64, HD_GROUP_INLINE_BYTES = 8 };

/* The error that ended a group, written once. */
typedef struct hd_group_end {
  atomic_uint state; /* HD_GROUP_RUNS, ...; barriers poll it */
  int32_t status;
  char text[HD_GROUP_TEXT_BYTES];
} hd_group_end;

enum { HD_GROUP_RUNS, HD_GROUP_ENDING, HD_GROUP_ENDED };

/* Memory of hd_group_alloc. */
typedef struct hd_group_buffer {
  hd_segment map;  /* of all ranks */
  size_t stride;   /* from one rank's to the next */
  uint32_t number; /* 1 + the number of its memory block, the same on all ranks of a host; 0: a free entry */
} hd_group_buffer;

typedef struct hd_mailbox hd_mailbox;
typedef struct hd_event_counter hd_event_counter;
typedef struct hd_work_queue hd_work_queue;

/* A group of ranks. It has more fields than a struct should: what all calls need, and one or two for each kind of
 * memory that the ranks of a host share: the barrier, slots, buffers, event counters, mailboxes, the work queue. */
struct hd_group {
  unsigned process; /* that joined it: a child of that is no rank */
  hd_local_group *local;
  bool owns_local_group, crowded;
  bool has_parent; /* another group goes on when it ends */
  int rank, ranks;
  int *member;      /* their ranks in the job */
  int *place;       /* of a rank among those of its host */
  int here, leader; /* the number of its ranks on this host, and the first of them */
  int hosts;        /* the number of hosts of its ranks */
  int32_t tag;      /* the first of two tags of transfers between hosts; 0: one host */
  int64_t number;   /* unique among all groups of its ranks, whereas tags are reused */
  double timeout_s;
  hd_segment memory;
  hd_group_end *end;
  hd_barrier_line *line; /* one per rank of this host */
  char *notes;           /* with several hosts: of all ranks, for even and odd rounds */
  hd_barrier barrier;
  hd_barrier_watch watch;
  double call_timeout_s; /* of the current call */
  uint64_t rounds;       /* so far; the same on all ranks */
  char *slots;
  size_t slot_bytes, result_bytes, stride; /* stride: from one rank's slots to the next */
  const void **inputs;                     /* one per rank: room for a call */
  hd_group_buffer buffer[HD_GROUP_BUFFERS];
  int buffers;                     /* in use */
  hd_event_counter *event_counter; /* one per rank */
  char *mailboxes;
  size_t fragment_bytes;
  hd_work_queue *work_queue; /* NULL: no work was ever started */
  struct hd_gpu_group *gpu;  /* buffers in the memory of GPUs, see gpu_group.c; NULL: in the host's */
};

/* Ends the group for all its ranks with this message, unless it has ended. */
void hd__group_break(hd_group *group, hd_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The error that ended the group: HD_E_PEER of the local group, or that of hd__group_break; HD_OK: it has not ended. */
hd_status hd__group_check(hd_group *group, hd_ctx *ctx);

/* HD_E_USAGE in a child of the process that joined the group. */
hd_status hd__group_check_process(const hd_group *group, hd_ctx *ctx);

/* To be called regularly during a wait: breaks the group if the local group is broken or `rank` has left. */
void hd__group_check_rank(hd_group *group, int rank);

/* Its two halves, for a rank that may leave just after what is waited for: whether it has left, else checks the local
 * group; and breaking the group, if what is waited for has not come meanwhile. */
bool hd__group_has_left(hd_group *group, int rank);
void hd__group_break_left(hd_group *group, int rank);

/* Whether a rank is on another host. */
bool hd__group_is_remote(const hd_group *group, int rank);

/* ---- Collectives of data in the host's memory, in the caller's thread ---- */

hd_status hd__collective(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* Waits for all ranks and compares their calls; moves no data. */
hd_status hd__collective_compare(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* All-gather of bytes in the host's memory, in a group of GPUs, too. No collective may be queued or running. */
hd_status hd__group_gather_host(void *all, hd_group *group, hd_ctx *ctx, const void *input, int64_t bytes);

/* The queue of asynchronous calls of a group, done by two threads of the group: one for collectives, in order, and
 * one for messages, which may wait for several ranks at once. Threads are started by the first such call. */

/* Waits for all queued collectives; for all queued calls. NULL is allowed. */
void hd__work_queue_drain(hd_work_queue *work_queue);
void hd__work_queue_destroy(hd_work_queue *work_queue);

/* Groups whose buffers are in the memory of GPUs, one for each rank: backend "nccl" of hd_group_init.
 *
 * Ranks use the barrier of any group, and compare each call before a byte of it moves; so calls that differ, late
 * ranks and lost ranks are reported as in other groups. Then NCCL moves the bytes from GPU to GPU. With portable
 * arithmetic NCCL only moves bytes: the inputs of all ranks are collected and added rank by rank, to the same bits
 * as with the other backends. With native arithmetic NCCL forms the sums. */

typedef struct hd_gpu_group hd_gpu_group;

/* Makes a group one of GPUs; a call of all its ranks. The message of HD_E_UNSUPPORTED names what is missing. */
hd_status hd__gpu_group_open(hd_group *group, hd_ctx *ctx, bool native);
void hd__gpu_group_close(hd_gpu_group *gpu); /* NULL is allowed */
bool hd__gpu_group_is_native(const hd_gpu_group *gpu);

/* A collective whose call all ranks have compared. */
hd_status hd__gpu_collective(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* A send or a receive. */
hd_status hd__gpu_message(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

/* Memory of this rank's GPU, cleared. */
hd_status hd__gpu_group_alloc(void **out, hd_group *group, hd_ctx *ctx, size_t bytes);
void hd__gpu_group_free(hd_group *group, void *memory);

/* Copies bytes from the host to it, or from it to the host. */
hd_status hd__gpu_group_copy(hd_group *group, hd_ctx *ctx, void *there, void *here, size_t bytes, bool upload);

/* Groups of ranks: creating them and destroying them, see heddle/group.h; their state is in group_state.h. */

/* The local group of a group that hd_group_init made; NULL for NULL. */
hd_local_group *hd__group_local(const hd_group *group);

/* Whether a group has all ranks of the run, by their numbers; NULL: a process alone. */
bool hd__group_is_whole(const hd_group *group);

/* Makes a group of all ranks of the run; a call of all of them. `local` outlives it. */
hd_status hd__group_of_ranks(hd_group **out, hd_ctx *ctx, hd_local_group *local, double timeout_s);
