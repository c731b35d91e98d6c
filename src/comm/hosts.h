/* The hosts of a job, and what crosses between them.
 *
 * Each host has a world of its own, in which its ranks share memory; the world knows the hosts of its job. The ranks of
 * a job are numbered by whoever started them. Hosts are numbered by the first rank that lives on them, and one rank of
 * each, the first of its world, speaks for it: that one is its leader.
 *
 *     job's ranks       0   1   2   3   4   5          member: 0 1 4 | 2 3 5
 *     lives on host     0   0   1   1   0   1          leaders: ranks 0 and 2
 *
 * A host that is lost, or that says that one of its ranks is, breaks the worlds of all others. So does one that is not
 * heard of for too long, and one that is waited for while the launcher ends the job.
 *
 * A world without hosts (started by heddle launch, or NULL) is one host, and everything here is true for it, too. */
#ifndef HD_COMM_HOSTS_H
#define HD_COMM_HOSTS_H

#include "comm/transport.h"
#include "comm/world.h"

typedef struct hd_hosts hd_hosts;

/* Tags of transfers; those of groups follow, two of each. */
enum { HD_TAG_HOSTS, HD_TAG_FAULT, HD_TAG_GROUPS = 16, HD_TAGS_OF_GROUP = 2 };
enum { HD_HOSTS_MOST_GROUPS = (HD_TRANSPORT_TAGS - HD_TAG_GROUPS) / HD_TAGS_OF_GROUP };

/* Starts the transport, and finds out who lives where: all ranks of the job. HEDDLE_HOST_ID, where it is set, is what
 * tells hosts apart; else the system's boot and the host's name are. `by`: the launcher that says that there are so
 * many ranks, for messages; -1: it does not say. */
hd_status hd__hosts_open(hd_hosts **out, hd_ctx *ctx, const char *by, int ranks);
void hd__hosts_close(hd_hosts *hosts, bool all_is_well);

/* Which rank of its host this process is, and of how many; and what those have in common that nobody else has. */
int hd__hosts_local_rank(const hd_hosts *hosts);
int hd__hosts_local_ranks(const hd_hosts *hosts);
void hd__hosts_key(char *text, size_t bytes, const hd_hosts *hosts);

/* The world takes the hosts, and closes them when it is left. All ranks of the job; closed at once on failure. */
hd_status hd__hosts_enter(hd_world *world, hd_ctx *ctx, hd_hosts *hosts);

/* Of the job. */
int hd__hosts_count(const hd_world *world);
int hd__hosts_mine(const hd_world *world); /* the host of this process */
int hd__hosts_rank(const hd_world *world);
int hd__hosts_ranks(const hd_world *world);
int hd__hosts_member(const hd_world *world, int place); /* the rank at a place, host after host */
int hd__hosts_first(const hd_world *world, int host);   /* place of its first rank; host = count: of none */
int hd__hosts_of(const hd_world *world, int rank);      /* the host on which a rank of the job lives */
int hd__hosts_local(const hd_world *world, int rank);   /* what it is in the world of its host */
const char *hd__hosts_name(const hd_world *world, int host);
const char *hd__hosts_transport(const hd_world *world); /* "Open MPI v4.1.4"; "": there is none */

/* Everybody's `bytes`, at most HD_WORLD_GATHER_BYTES, in the order of the job's ranks. All ranks. */
hd_status hd__hosts_gather(void *all, hd_world *world, hd_ctx *ctx, const void *mine, size_t bytes);

/* `text` must be the same in all ranks: HD_E_USAGE names the ranks that differ, `what` and both texts. */
hd_status hd__hosts_agree(hd_world *world, hd_ctx *ctx, const char *what, const char *text);

/* What is to move at once: parts of one peer follow each other. */
typedef struct hd_movement {
  hd_transfer_part *part;
  int count;
  int room; /* for parts */
  hd_transfer **transfer;
  int *peer;
  struct hd_movement *next; /* that rests */
} hd_movement;

/* An empty one with room for `parts`: one that rests, if there is one, so that steps allocate nothing. Whoever takes it
 * lets it move; then it rests. NULL without memory. Any thread. */
hd_movement *hd__hosts_movement(hd_world *world, int parts);

/* Moves bytes to and from other ranks, and waits for that, `patience_s` at most: HD_E_TIMEOUT leaves the world whole,
 * and says for whom one waited. Any rank. The movement rests then. */
hd_status hd__hosts_move_within(int *missing, hd_world *world, hd_ctx *ctx, hd_movement *movement, double patience_s);

/* One transfer that is not waited for: see hd_transport. 1, 0, or -1: the world is broken then. */
hd_status hd__hosts_start(hd_transfer **out, hd_world *world, hd_ctx *ctx, const hd_transfer_part *parts, int count);
int hd__hosts_test(hd_world *world, hd_transfer *transfer, int peer);

/* Takes the lowest tags for a group, from `from` on, that no group of this rank has: returns the first of them, or
 * HD_TRANSPORT_TAGS if there are none. And gives them back; 0, or none: nothing. Any thread. */
int32_t hd__hosts_take_tags(hd_world *world, int32_t from);
void hd__hosts_give_tags(hd_world *world, int32_t tag);

/* Who waits for something else hears of other hosts' faults by this, every now and then. */
void hd__hosts_listen(hd_world *world);

/* Leaders: what the first host has in `data`, all have. */
hd_status hd__hosts_spread(hd_world *world, hd_ctx *ctx, void *data, int64_t bytes);

/* Blocks that lie one after the other from `data` on, bytes[h] of host h. */
typedef struct hd_blocks {
  void *data;
  const int64_t *bytes;
  bool to_first; /* the first host alone gets them */
} hd_blocks;

/* Rows of `stride` bytes that lie one after the other from `data` on: host h has filled [row[h], row[h + 1]), and gets
 * the bytes [from[h], from[h + 1]) of all rows. */
typedef struct hd_slices {
  void *data;
  int64_t stride;
  const int32_t *row;
  const int64_t *from;
} hd_slices;

/* Leaders: each host has filled its own block, and all have all of them afterwards; of several such at once, and
 * slices, if they are not NULL, with them. *last is the first rank of the host that one waited for last, -1: for none;
 * it may be NULL. Breaks the world when it fails, so that whoever waits for this rank at a meeting comes to know. */
hd_status hd__hosts_join_blocks(int *last, hd_world *world, hd_ctx *ctx, const hd_blocks *blocks, int count,
                                const hd_slices *slices);

/* This process was asked to end: who is waited for between hosts has a moment left. May be called by signal
 * handlers. */
void hd__hosts_hurry(hd_world *world);

/* All ranks have agreed to end: from now on they wait for each other as patiently as ever. */
void hd__hosts_calm(hd_world *world);

/* For worlds: tells the other hosts what broke this one. */
void hd__hosts_tell(hd_hosts *hosts, const hd_fault *fault);

/* For worlds: what a rank of this host is called in the job. */
int hd__hosts_named(const hd_hosts *hosts, int local_rank);

#endif
