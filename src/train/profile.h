/* --profile: what lanes did and when, as a file that Perfetto opens, and as shares of their time.
 *
 * The file is a trace in Chrome's JSON format: one process per rank, with a track per lane, and in that of rank 0 one
 * for the writer of checkpoints; on a GPU tracks for the host, for copies and for computing, whose shares are told. It
 * holds the steps that exec/trace.h keeps. It is written whole under its final name: empty when the run starts, so that
 * a name that cannot be written fails before the first step, and with all slices at the run's end, however that comes
 * about.
 *
 * A profile reads the tracks of all ranks, those of other hosts after it has fetched them, and rank 0 writes it; call
 * it when no region runs in any of them. */
#ifndef HD_TRAIN_PROFILE_H
#define HD_TRAIN_PROFILE_H

#include "exec/exec.h"
#include "heddle/session.h"
#include "sys/file.h"

typedef struct hd_profiler {
  hd_trace *trace; /* NULL: nothing is recorded */
  const hd_plan *plan;
  hd_world *world;
  const char *model;
  int64_t first_step; /* done before this session */
  bool gpu;           /* tracks are those of a GPU: host, copy, compute */
  char path[HD_PATH_BYTES];
  char **label; /* of nodes, then of parameters: as JSON, quotes included */
  hd_profile_item *item;
  char *text; /* the items' names */
  hd_profile result;
} hd_profiler;

/* What is recorded, by all ranks of a world (NULL: this process alone), for rank 0 to write to `path`. Plan, world and
 * names must outlive the profiler. */
typedef struct hd_profile_of {
  const char *path, *model;
  hd_exec *exec;
  const hd_plan *plan;
  const hd_lanes *lanes; /* NULL: a GPU computes */
  hd_world *world;
  int64_t first_step; /* done before */
} hd_profile_of;

/* Starts recording. */
hd_status hd__profile_open(hd_profiler *profiler, hd_ctx *ctx, const hd_profile_of *of);
void hd__profile_close(hd_profiler *profiler);

/* The track of this process's first lane, whose thread also does what happens between regions, and that of the writer
 * of checkpoints; NULL without a profile. */
hd_track *hd__profile_first_track(const hd_profiler *profiler);
hd_track *hd__profile_writer_track(const hd_profiler *profiler);

/* Writes the file and sums the shares up; waits until the other ranks have come here, unless one is lost. */
hd_status hd__profile_write(hd_profiler *profiler, hd_ctx *ctx);

/* The shares: fills profiler->result. */
hd_status hd__profile_sum(hd_profiler *profiler, hd_ctx *ctx);

/* Calls visit for each slice of each kept step and event, track after track, steps before events; `step` is the number
 * of the step, counted from 0, or -1. Stops early when visit returns false. */
typedef bool hd_slice_visit(void *arg, int track, int64_t step, const hd_slice *slice);
void hd__profile_walk(const hd_profiler *profiler, hd_slice_visit *visit, void *arg);

/* The lane of `lane`'s host that came last to the meeting which the lanes' n-th slices of kind WAIT in a kept step end.
 * Of a rank that was lost some slices may be missing. */
int hd__profile_last_lane(const hd_profiler *profiler, int lane, int64_t step, int n);

#endif
