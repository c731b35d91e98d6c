/* The ranks of one run on a host: the memory that they share, where they meet, and how they learn that one is gone.
 *
 * A world is a memory file without a name. Whoever starts the ranks makes it and hands its descriptor down, or a rank
 * makes it and passes it to the others; it is gone with the last process that holds it.
 *
 *     offset 0     head: magic, ranks, parent, the fault, what lies behind
 *     slots        one per rank, which alone writes it: who it is, how far it has come
 *     lines        one per rank: where ranks meet
 *     exchange     two places per rank, by the parity of the meeting: what a gather carries
 *     pieces       which part of what follows is whose, by which name, and how many ranks hold it
 *     2 MiB * n    the pieces: memory that the ranks asked for together. One that nobody holds any more has no pages,
 *                  and is the next one of its size: sessions and groups may come and go as long as the world lives
 *
 * A rank that ends without leaving, that is stopped, or that does not come for too long, breaks the world: everybody's
 * waiting ends within a fraction of a second, with HD_E_PEER and a line that names it. A broken world stays broken.
 *
 * NULL is the world of a process alone: rank 0 of 1, whose shared memory is its own. Calls are made by all ranks in the
 * same order, each from one thread, unless they say otherwise. */
#ifndef HD_COMM_WORLD_H
#define HD_COMM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/fault.h"
#include "sys/meeting.h"
#include "sys/segment.h"

enum { HD_WORLD_MOST_RANKS = 1024, HD_WORLD_GATHER_BYTES = 2112, HD_WORLD_PIECES = 4096, HD_WORLD_NAME_BYTES = 64 };

typedef struct hd_world hd_world;

/* How a rank stands, as its slot says. */
enum { HD_RANK_ABSENT, HD_RANK_JOINING, HD_RANK_JOINED, HD_RANK_LEFT };

typedef struct hd_rank_view {
  int32_t state, pid;
  uint64_t start; /* of the process, see hd__process_start */
  int64_t step;   /* last whole one; -1: it counts none */
} hd_rank_view;

/* Makes a world for `ranks` and holds it without being a rank: hd__world_rank is -1. `parented`: the ranks end when
 * this process ends. */
hd_status hd__world_found(hd_world **out, hd_ctx *ctx, int ranks, bool parented);

/* Becomes a rank of the world whose memory file `fd` is; the world keeps a copy of the descriptor. Waits for all ranks
 * to join: HD_E_TIMEOUT names those that did not. HD_E_USAGE for a rank that is out of range or taken. */
hd_status hd__world_join(hd_world **out, hd_ctx *ctx, int fd, int rank, double timeout_s);

/* Holds the world of the memory file `fd` without being a rank, and waits for nobody. */
hd_status hd__world_hold(hd_world **out, hd_ctx *ctx, int fd);

/* What a rank is told by whoever started it, beside the memory file at HD_SPAWN_FD: "RANK/RANKS". */
#define HD_WORLD_VARIABLE "HEDDLE_WORLD"

/* Whether this process was started as a rank, which one, and of how many. */
bool hd__world_launched(int *rank, int *ranks);

/* Joins as the rank that this process was started as; HD_E_USAGE if it was not. */
hd_status hd__world_join_launched(hd_world **out, hd_ctx *ctx, double timeout_s);

/* Lets go: a rank leaves, and whoever waits for it afterwards waits in vain. NULL is allowed. */
void hd__world_leave(hd_world *world);

int hd__world_rank(const hd_world *world);
int hd__world_ranks(const hd_world *world);
int hd__world_fd(const hd_world *world);
bool hd__world_is_parented(const hd_world *world);

/* Any time, any process that holds the world. */
hd_rank_view hd__world_view(const hd_world *world, int rank);

/* Memory for all ranks, zeroed, released with hd__segment_destroy. All ask for the same: HD_E_USAGE otherwise. */
hd_status hd__world_memory(hd_segment *out, hd_world *world, hd_ctx *ctx, size_t bytes, const char *what);

/* The number of a piece of `bytes`, zeroed, that `holders` ranks are going to map: who takes it tells the others.
 * HD_E_USAGE: there are HD_WORLD_PIECES. Any rank, any thread, any time. */
hd_status hd__world_take(int32_t *piece, hd_world *world, hd_ctx *ctx, size_t bytes, int holders);

/* Why there is none, where another rank asked for it and got `why`. */
hd_status hd__world_no_piece(hd_ctx *ctx, hd_status why, const char *what);

/* Gives back what was taken, and nobody is going to map. */
void hd__world_untake(hd_world *world, int32_t piece);

/* Maps a piece: each holder once. It is free when all have destroyed it. */
hd_status hd__world_map(hd_segment *out, hd_world *world, hd_ctx *ctx, int32_t piece, const char *what);

/* Maps what the ranks hold by this name, the last of them: for who is not a rank. HD_E_USAGE: there is none. */
hd_status hd__world_find(hd_segment *out, hd_world *world, hd_ctx *ctx, const char *what);

/* Everybody's `bytes`, at most HD_WORLD_GATHER_BYTES, in the order of ranks. Whatever was written to shared memory
 * before is seen by all after it. */
hd_status hd__world_gather(void *all, hd_world *world, hd_ctx *ctx, const void *mine, size_t bytes);

/* A gather of nothing. */
hd_status hd__world_meet(hd_world *world, hd_ctx *ctx);

/* After how many seconds without coming to a meeting a rank that lives counts as lost; at first 60. */
void hd__world_set_patience(hd_world *world, double seconds);
double hd__world_patience(const hd_world *world);

/* The third-level cache under which the calling thread may run, by the machine's number; -1: several, unknown, or too
 * few ranks for that to matter. Looked up once. */
int hd__world_cache(hd_world *world);

/* What the next group of this rank is numbered, at least: it has a higher number than all that its ranks had before. */
int64_t hd__world_next_group(const hd_world *world);
void hd__world_set_next_group(hd_world *world, int64_t number);

/* The hosts of the job that the world is a part of, NULL: it is the whole job; see hosts.h. */
struct hd_hosts *hd__world_hosts(const hd_world *world);
void hd__world_set_hosts(hd_world *world, struct hd_hosts *hosts);
const char *hd__world_host_name(const hd_world *world);

/* This rank has done so many whole steps. Any thread. */
void hd__world_step(hd_world *world, int64_t step);

/* Breaks the world: this rank cannot go on. Any thread. */
void hd__world_give_up(hd_world *world, const char *why);

/* What meetings of the ranks' lanes look at, and tell them by when `rank` is late. Any thread. */
const atomic_uint *hd__world_broken_word(const hd_world *world);
void hd__world_late(hd_world *world, int rank, int64_t waited_ns);

/* HD_OK, or HD_E_PEER with the line of what broke the world. Who got it has heard: else the process is ended, with that
 * line on standard error and exit status 1, some time after the world broke. Any thread. */
hd_status hd__world_check(hd_world *world, hd_ctx *ctx);

/* This process will look for itself, and is not to be ended when the world breaks. */
void hd__world_keep_process(hd_world *world);

/* Of a broken world: whether this rank has to look after what the ranks leave. Their parent does where there is one,
 * else the first rank that is left. */
bool hd__world_is_heir(const hd_world *world);

/* The fault itself, and putting one there, for who is not a rank. */
bool hd__world_fault(hd_fault *out, const hd_world *world);
void hd__world_break(hd_world *world, const hd_fault *fault);

#endif
