/* --profile: what threads did over time, as a file for Perfetto, and as shares of their time.
 *
 * The file is a trace in Chrome's JSON format: one process per rank, with a track per thread, and in that of rank 0 one
 * for the writer of checkpoints; on a GPU tracks for the host, for copies and for computing, whose shares are reported.
 * It holds the steps that exec/trace.h keeps. It is written under its final name: empty when the run starts, so that a
 * name that cannot be written fails before the first step, and with all slices when the run ends, also after a failure.
 *
 * A profile reads the tracks of all ranks, those of other hosts after fetching them, and rank 0 writes the file; call
 * it when no region runs in any rank. */
#pragma once

#include "exec/executor.h"
#include "graph/graph.h"
#include "heddle/session.h"
#include "platform/file.h"

typedef struct hd_profiler {
  hd_trace *trace; /* NULL: nothing is recorded */
  const hd_plan *plan;
  hd_local_group *local;
  const char *model;
  int64_t first_step;       /* done before this session */
  const char *const *names; /* of tracks, of which the last computes; NULL: they are threads' */
  char path[HD_PATH_BYTES];
  char **label; /* labels of nodes, then of parameters: as JSON, quotes included */
  hd_profile_item *item;
  char *text; /* the items' names */
  hd_profile result;
} hd_profiler;

/* What is recorded by all ranks of a local group (NULL: this process alone), for rank 0 to write to `path`. Plan, group
 * and names must outlive the profiler. */
typedef struct hd_profile_of {
  const char *path, *model;
  hd_exec *exec;
  const hd_plan *plan;
  const hd_threads *threads;
  hd_local_group *local;
  int64_t first_step; /* done before */
} hd_profile_of;

/* Starts recording. */
hd_status hd__profile_open(hd_profiler *profiler, hd_ctx *ctx, const hd_profile_of *of);
void hd__profile_close(hd_profiler *profiler);

/* The track of this process's first thread, which also records events between regions, and that of the writer of
 * checkpoints; NULL without a profile. */
hd_track *hd__profile_first_track(const hd_profiler *profiler);
hd_track *hd__profile_writer_track(const hd_profiler *profiler);

/* Whether this rank writes the file. */
bool hd__profile_writes(const hd_profiler *profiler);

/* Calls visit for each slice of each kept step and event, track after track, steps before events; `step` is the number
 * of the step, counted from 0, or -1. Stops early when visit returns false. */
typedef bool hd_slice_visit(void *arg, int track, int64_t step, const hd_slice *slice);
void hd__profile_walk(const hd_profiler *profiler, hd_slice_visit *visit, void *arg);

/* A thread's n-th slice of kind WAIT in a kept step; NULL: there is none. */
const hd_slice *hd__profile_wait(const hd_profiler *profiler, int thread, int64_t step, int n);

/* The thread of `thread`'s host that arrived last at the barrier of the threads' n-th slices of kind WAIT in a kept
 * step. Some slices of a lost rank may be missing. */
int hd__profile_last_thread(const hd_profiler *profiler, int thread, int64_t step, int n);

/* ---- Writing a profile's trace file ---- */

/* Writes the file and computes the shares; waits until the other ranks call it too, unless one is lost. */
hd_status hd__profile_write(hd_profiler *profiler, hd_ctx *ctx);

/* Fills in profiler->result, the summary of a profile: the shares of the threads' time inside kept steps, by operation,
 * and of waiting between threads. Operations of one layer and direction count together, as does all work on
 * parameters. */
hd_status hd__profile_sum(hd_profiler *profiler, hd_ctx *ctx);
