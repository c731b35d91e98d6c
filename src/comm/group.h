/* A group from the inside: some ranks of a world, the memory that they share, and where they meet.
 *
 *     head         why the group came to its end
 *     lines        one per rank: the meeting, whose notes say what each rank calls, with up to 8 bytes of data
 *     slots        per rank two slots by the parity of the round, and two of results
 *     boxes        one per pair of ranks, for send and recv
 *
 * A collective is a series of rounds. In each a rank puts something into its own slot, meets the others, and takes from
 * theirs. It may write the slot of the next round while others still read this one; the slot after that is this one
 * again, and by then all have come to a later meeting. So there is one meeting for a round, and a slot has one
 * writer.
 *
 * Where the ranks live on several hosts each host has such memory, with slots and notes for all ranks; those that live
 * here meet, the first of them moves what was put to the other hosts and takes what was put there, and they meet once
 * more. Sums are then added as on one host, in the order of ranks: the same bits. Messages go from rank to rank. */
#ifndef HD_COMM_GROUP_H
#define HD_COMM_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "comm/world.h"
#include "heddle/group.h"

enum { HD_GROUP_TEXT_BYTES = 512, HD_GROUP_BUFFERS = 64, HD_GROUP_INLINE_BYTES = 8 };

/* Written once, by who noticed first. */
typedef struct hd_group_end {
  atomic_uint state; /* what meetings look at; see HD_GROUP_RUNS */
  int32_t status;
  char text[HD_GROUP_TEXT_BYTES];
} hd_group_end;

enum { HD_GROUP_RUNS, HD_GROUP_ENDING, HD_GROUP_ENDED };

/* Memory of hd_group_alloc. */
typedef struct hd_group_buffer {
  hd_segment map;  /* of all ranks */
  size_t stride;   /* from one rank's to the next */
  uint32_t number; /* the same on all ranks; 0: a free entry */
} hd_group_buffer;

typedef struct hd_box hd_box;
typedef struct hd_bell hd_bell;
typedef struct hd_desk hd_desk;

struct hd_group {
  hd_world *world;
  bool owns_world, crowded;
  int rank, ranks;
  int *member;      /* their ranks in the job */
  int *place;       /* of a rank among those of its host */
  int here, leader; /* how many live on this host, and which is the first of them */
  int hosts;        /* on how many they live */
  int32_t tag;      /* of what goes to other hosts, two of them; 0: nothing does */
  int64_t number;   /* no other group of any of its ranks ever had it; tags come again */
  double timeout_s;
  hd_segment memory;
  hd_group_end *end;
  hd_meeting_line *line; /* one per rank that lives here */
  char *notes;           /* with several hosts: of all ranks, by the parity of the round */
  hd_meeting meeting;
  hd_meeting_watch watch;
  double patience_s; /* of the call that is being done */
  uint64_t rounds;   /* how many there were; the same on all ranks */
  char *slots;
  size_t slot_bytes, result_bytes, stride; /* stride: from one rank's slots to the next */
  const void **inputs;                     /* one per rank: room for a call */
  hd_group_buffer buffer[HD_GROUP_BUFFERS];
  uint32_t buffers_made;
  hd_bell *bell; /* one per rank */
  char *boxes;
  size_t fragment_bytes;
  hd_desk *desk;            /* NULL: no work was ever started */
  struct hd_gpu_group *gpu; /* buffers are a GPU's, see gpu_group.h; NULL: the host's */
};

/* The world of a group that hd_group_init made; NULL for NULL. */
hd_world *hd__group_world(const hd_group *group);

/* Makes a group of a world's ranks: all of them take part, `world` outlives it. */
hd_status hd__group_of_world(hd_group **out, hd_ctx *ctx, hd_world *world, double timeout_s);

/* Ends the group for all its ranks with this message, unless it has ended. */
void hd__group_break(hd_group *group, hd_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Why nobody comes any more: HD_E_PEER of the world, or what hd__group_break was told; HD_OK: nothing is wrong. */
hd_status hd__group_check(hd_group *group, hd_ctx *ctx);

/* What who waits does every now and then: notices that the world broke, or that `rank` has left. */
void hd__group_look(hd_group *group, int rank);

/* Whether a rank lives on another host. */
bool hd__group_is_far(const hd_group *group, int rank);

/* Everybody's bytes of the host's memory, in a group of GPUs, too. */
hd_status hd__group_gather_host(void *all, hd_group *group, hd_ctx *ctx, const void *mine, int64_t bytes);

/* Collectives (collective.c), and messages (message.c), in the caller's thread. */
hd_status hd__collective(hd_group *group, hd_ctx *ctx, const hd_group_call *call);

#endif
