/* What lanes did and when, recorded while they run; train/profile.c makes a file of it.
 *
 * A lane has a track of its own, which nobody else writes and which is read only when no region runs. Tracks of all
 * ranks lie in memory that they share, where everything is told by its distance, since each rank maps it elsewhere: so
 * one of them can write all down, also what a rank recorded that is gone. A track's slices lie in reels: one with a
 * block of slices for each step, one with a slice for each thing that happens between steps. A reel has room for a
 * fixed number of blocks: the first half of them keeps the first ones, the other half is a ring that keeps the last
 * ones. All tracks keep the same steps. Nothing is allocated while recording.
 *
 *     steps of a lane:  | step 0 | step 1 | ... | step h-1 |  | step n-2 | step n-1 | step n-h | ... |
 *                         the first h                            the last h, by number mod h
 *
 * Slices of a step are recorded in the order in which they begin, a slice before those inside of it. A leaf begins
 * where the one before it ended, so that each costs one look at the clock; slices around leaves cost none. What
 * records takes a track that may be NULL: then nothing happens. */
#ifndef HD_EXEC_TRACE_H
#define HD_EXEC_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "comm/world.h"
#include "sys/clock.h"
#include "sys/segment.h"

typedef enum hd_slice_kind {
  /* Around others. */
  HD_SLICE_STEP,  /* of: its number of samples */
  HD_SLICE_PHASE, /* of: the plan's phase */
  /* Leaves of a step. */
  HD_SLICE_FETCH,       /* samples, gathered and normalised */
  HD_SLICE_CALL,        /* of: the node */
  HD_SLICE_GATHER,      /* sums over all shards, for a later phase */
  HD_SLICE_FOLD,        /* of: the parameter */
  HD_SLICE_FOLD_UPDATE, /* likewise */
  HD_SLICE_UPDATE,      /* likewise */
  HD_SLICE_NORM,        /* sums of squares of gradients */
  HD_SLICE_CLOSE,       /* lane 0: the batch's loss, what the next step is */
  HD_SLICE_WAIT,        /* for the others, at a meeting */
  HD_SLICE_CROSS,       /* the first lane of a host: bytes to and from others; of: the last one's first rank */
  HD_SLICE_INLET,       /* the host of a GPU: waits until it may fill the next step's inlet; */
  HD_SLICE_LAUNCH,      /* tells the GPU what to do; */
  HD_SLICE_COLLECT,     /* waits for what came of steps */
  HD_SLICE_UPLOAD,      /* a step's copies to the GPU */
  HD_SLICE_REPORT,      /* lane 0, behind the step: the callback */
  /* Between steps. */
  HD_SLICE_SHUFFLE,
  HD_SLICE_EVALUATE, /* of: samples of the split */
  HD_SLICE_COPY,     /* of a version, for a checkpoint; waits for the one before */
  HD_SLICE_WRITE     /* of a checkpoint, by the writer */
} hd_slice_kind;

typedef struct hd_slice {
  int64_t begin_ns, end_ns;
  int32_t kind, of;
} hd_slice;

typedef struct hd_reel {
  int64_t slices_at; /* from the reel, in bytes: half * 2 blocks of `room` slices */
  int64_t used_at;   /* likewise: how many of a block's slices there are, an int32_t per block */
  int32_t half, room;
  int64_t count; /* blocks ever begun */
} hd_reel;

typedef struct hd_track {
  _Alignas(128) int64_t now_ns; /* where the last leaf ended */
  int64_t block;                /* of the step under way */
  hd_reel steps, events;
  int32_t rank, pid, cpu; /* whose it is; cpu: that the lane is bound to, -1: none */
} hd_track;

typedef struct hd_trace {
  hd_track *track; /* one per lane of this host, then that of the writer of checkpoints, without steps */
  int lanes;
  int first, own; /* this process's lanes */
  int64_t start_ns;
  hd_segment memory;
  /* For who reads: the tracks of all hosts, after hd__trace_collect; before, of this one alone. */
  int hosts, all_lanes;
  hd_track **of_host;
  int *host_lane; /* host h has the lanes [host_lane[h], host_lane[h + 1]) of all */
} hd_trace;

typedef struct hd_trace_size {
  int lanes;      /* of this host */
  int first, own; /* this process's */
  int all_lanes;  /* of all hosts; 0: there is one */
  int32_t room;   /* slices of a lane's step, at most */
  int64_t slices; /* of steps in all, about */
} hd_trace_size;

/* All ranks of a world (NULL: this process alone), each with its lanes. */
hd_status hd__trace_create(hd_trace **out, hd_ctx *ctx, hd_world *world, const hd_trace_size *size);
void hd__trace_destroy(hd_trace *trace);

/* All ranks, when no region runs in any of them: the first host gets the tracks of the others, with their times put on
 * its clock: two hosts that exchange something are both at it for a moment. */
hd_status hd__trace_collect(hd_trace *trace, hd_ctx *ctx, hd_world *world);

/* The host of a lane of all, and the lane's track; the last one's is followed by that of the writer. */
int hd__trace_host(const hd_trace *trace, int lane);
hd_track *hd__trace_track(const hd_trace *trace, int lane);

/* The block in which a reel keeps number `n`, or -1 if it was overwritten or not begun. */
int64_t hd__reel_block(const hd_reel *reel, int64_t n);

/* A block's slices, and how many there are. */
static inline hd_slice *hd__reel_slices(const hd_reel *reel, int64_t block) {
  return (hd_slice *)((intptr_t)reel + reel->slices_at) + block * reel->room;
}

static inline int32_t *hd__reel_used(const hd_reel *reel, int64_t block) {
  return (int32_t *)((intptr_t)reel + reel->used_at) + block;
}

/* Begins a block; NULL-safe like all below. */
void hd__trace_step(hd_track *track);

/* Something that happened between steps and ends now. */
void hd__trace_event(hd_track *track, hd_slice_kind kind, int32_t of, int64_t begin_ns);

/* The next leaf begins now: at the start of a region. */
static inline void hd__trace_start(hd_track *track) {
  if (track)
    track->now_ns = hd__clock_ns();
}

/* A slice that begins where the last leaf ended; returns what to close it with. */
static inline int hd__trace_open(hd_track *track, hd_slice_kind kind, int32_t of) {
  int32_t *used = track ? hd__reel_used(&track->steps, track->block) : NULL;
  if (!used || *used == track->steps.room)
    return -1;
  hd__reel_slices(&track->steps, track->block)[*used] =
      (hd_slice){.begin_ns = track->now_ns, .end_ns = track->now_ns, .kind = (int32_t)kind, .of = of};
  return (*used)++;
}

/* Ends where the last leaf ended. */
static inline void hd__trace_close(hd_track *track, int opened) {
  if (track && opened >= 0)
    hd__reel_slices(&track->steps, track->block)[opened].end_ns = track->now_ns;
}

/* A leaf: from the end of the one before until now. */
static inline void hd__trace_leaf(hd_track *track, hd_slice_kind kind, int32_t of) {
  if (!track)
    return;
  int leaf = hd__trace_open(track, kind, of);
  track->now_ns = hd__clock_ns();
  hd__trace_close(track, leaf);
}

#endif
