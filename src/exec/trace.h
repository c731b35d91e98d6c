/* Records the work of threads as time slices while they run; train/profile/profile_file.c writes them to a file.
 *
 * Each thread has a track, written by that thread alone and read only when no region runs. The tracks of all ranks
 * are in memory of the local group. Places there are relative offsets, since each rank maps the memory at another
 * address; so one rank can write all tracks, including those of a rank that has ended. A track has two slice
 * buffers: one with a block of slices per step, one with a block of one slice per event between steps. A buffer has
 * room for a fixed number of blocks: its first half keeps the first blocks, its second half is a ring of the last
 * blocks. All tracks keep the same steps. Nothing is allocated while recording.
 *
 *     steps of a thread:  | step 0 | step 1 | ... | step h-1 |  | step n-2 | step n-1 | step n-h | ... |
 *                         the first h                            the last h, by number mod h
 *
 * Slices of a step are recorded in the order of their begin, an enclosing slice before the slices inside it. A leaf
 * begins where the previous leaf ended, so each costs one clock read; enclosing slices cost none. Recording
 * functions accept NULL as the track and then do nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "exec/exchange/local_group.h"
#include "platform/clock.h"
#include "platform/segment.h"

typedef enum hd_slice_kind {
  /* Enclosing others. */
  HD_SLICE_STEP,  /* of: its number of samples */
  HD_SLICE_PHASE, /* of: the plan's phase */
  /* Leaves of a step. */
  HD_SLICE_FETCH,         /* samples, gathered and normalised */
  HD_SLICE_CALL,          /* of: the node */
  HD_SLICE_GATHER,        /* sums over all shards, for a later phase */
  HD_SLICE_REDUCE,        /* of: the parameter */
  HD_SLICE_REDUCE_UPDATE, /* likewise */
  HD_SLICE_UPDATE,        /* likewise */
  HD_SLICE_NORM,          /* sums of squares of gradients */
  HD_SLICE_CLOSE,         /* thread 0: the batch's loss, preparing the next step */
  HD_SLICE_WAIT,          /* for the others, at a barrier */
  HD_SLICE_BUBBLE,        /* of a pipeline: for another stage; of: that stage */
  HD_SLICE_EXCHANGE, /* the first thread of a host: bytes to and from other hosts; of: the last host's first rank */
  HD_SLICE_INLET,    /* the host of a GPU: waiting until the next step's inlet is free */
  HD_SLICE_LAUNCH,   /* likewise: queueing work of the GPU */
  HD_SLICE_COLLECT,  /* likewise: waiting for the results of steps */
  HD_SLICE_UPLOAD,   /* a step's copies to the GPU */
  HD_SLICE_REPORT,   /* thread 0, after the step: the callback */
  /* Between steps. */
  HD_SLICE_SHUFFLE,
  HD_SLICE_EVALUATE, /* of: samples of the split */
  HD_SLICE_COPY,     /* of a version, for a checkpoint; includes waiting for the previous one */
  HD_SLICE_WRITE     /* of a checkpoint, by the writer */
} hd_slice_kind;

typedef struct hd_slice {
  int64_t begin_ns, end_ns;
  int32_t kind, of;
} hd_slice;

typedef struct hd_slice_buffer {
  int64_t slices_at; /* bytes from the buffer's address: 2 * half blocks of `room` slices */
  int64_t used_at;   /* likewise: the number of slices in each block, int32_t */
  int32_t half, room;
  int64_t count; /* blocks begun so far */
} hd_slice_buffer;

typedef struct hd_track {
  _Alignas(128) int64_t now_ns; /* end of the last leaf */
  int64_t block;                /* of the current step */
  hd_slice_buffer steps, events;
  int32_t rank, pid, cpu; /* of the thread; cpu: the CPU it is bound to, -1: none */
} hd_track;

typedef struct hd_trace {
  hd_track *track; /* one per thread of this host, then the checkpoint writer's, which has no steps */
  int threads;
  int first, process_threads; /* this process's threads */
  int64_t start_ns;
  hd_segment memory;
  /* For reading: after hd__trace_collect the tracks of all hosts, before of this host alone. */
  int hosts, all_threads;
  hd_track **of_host;
  int *host_thread; /* host h has the threads [host_thread[h], host_thread[h + 1]) */
} hd_trace;

typedef struct hd_trace_size {
  int threads;                /* of this host */
  int first, process_threads; /* this process's */
  int all_threads;            /* of all hosts; 0: a single host */
  int32_t room;               /* slices of a thread's step, at most */
  int64_t slices;             /* of all steps together, about */
  const char *const *names;   /* of tracks that are no threads', of which the last computes; NULL: of threads */
} hd_trace_size;

/* Collective over the local group (NULL: this process alone). */
hd_status hd__trace_create(hd_trace **out, hd_ctx *ctx, hd_local_group *local, const hd_trace_size *size);
void hd__trace_destroy(hd_trace *trace);

/* Collective over all ranks, while no region runs. The first host receives the tracks of the other hosts, with times
 * converted to its clock: an exchange overlaps in time on its two hosts, which bounds the difference of their
 * clocks. */
hd_status hd__trace_collect(hd_trace *trace, hd_ctx *ctx, hd_local_group *local);

/* The host of a thread, numbered over all hosts, and its track. Thread number all_threads is the checkpoint writer. */
int hd__trace_host(const hd_trace *trace, int thread);
hd_track *hd__trace_track(const hd_trace *trace, int thread);

/* The block in which a buffer keeps number `n`, or -1 if it was overwritten or not begun. */
int64_t hd__slice_buffer_block(const hd_slice_buffer *buffer, int64_t n);

/* A block's slices, and how many there are. */
static inline hd_slice *hd__slice_buffer_slices(const hd_slice_buffer *buffer, int64_t block) {
  return (hd_slice *)((intptr_t)buffer + buffer->slices_at) + block * buffer->room;
}

static inline int32_t *hd__slice_buffer_used(const hd_slice_buffer *buffer, int64_t block) {
  return (int32_t *)((intptr_t)buffer + buffer->used_at) + block;
}

/* Begins a block; NULL-safe like all below. */
void hd__trace_step(hd_track *track);

/* Records an event between steps that ends now. */
void hd__trace_event(hd_track *track, hd_slice_kind kind, int32_t of, int64_t begin_ns);

/* The next leaf begins now: at the start of a region. */
static inline void hd__trace_start(hd_track *track) {
  if (track)
    track->now_ns = hd__clock_ns();
}

/* Begins a slice where the last leaf ended; returns the handle for hd__trace_close. */
static inline int hd__trace_open(hd_track *track, hd_slice_kind kind, int32_t of) {
  int32_t *used = track ? hd__slice_buffer_used(&track->steps, track->block) : NULL;
  if (!used || *used == track->steps.room)
    return -1;
  hd__slice_buffer_slices(&track->steps, track->block)[*used] =
      (hd_slice){.begin_ns = track->now_ns, .end_ns = track->now_ns, .kind = (int32_t)kind, .of = of};
  return (*used)++;
}

/* Ends a slice where the last leaf ended. */
static inline void hd__trace_close(hd_track *track, int opened) {
  if (track && opened >= 0)
    hd__slice_buffer_slices(&track->steps, track->block)[opened].end_ns = track->now_ns;
}

/* Records a leaf, from the end of the previous one until now. */
static inline void hd__trace_leaf(hd_track *track, hd_slice_kind kind, int32_t of) {
  if (!track)
    return;
  int leaf = hd__trace_open(track, kind, of);
  track->now_ns = hd__clock_ns();
  hd__trace_close(track, leaf);
}
