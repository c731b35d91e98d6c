/* The executor on threads.
 *
 * A run is one parallel region: threads run the plan's phases step after step, with one barrier between two phases.
 * Memory that several threads read belongs to the local group; the rest is process-local. */
#pragma once

#include "exec/executor.h"

extern const hd_executor hd__cpu_executor;

/* An executor's memory in bytes, by use; the sum is the segment's size before rounding to pages. */
typedef struct hd_exec_memory {
  int64_t activations; /* arenas, batch memory, scratch */
  int64_t fetch;       /* settings.fetch_bytes of all threads */
  int64_t gradients;   /* sums that are still to be reduced */
  int64_t bookkeeping;
  int64_t mapped;                       /* all of it, in whole pages */
  int64_t stage_arenas[HD_MAX_STAGES];  /* of activations: of the threads of each stage, */
  int32_t stage_threads[HD_MAX_STAGES]; /* and the number of those */
} hd_exec_memory;

/* The memory that an executor would take with `threads` threads. */
hd_status hd__exec_cpu_measure(hd_exec_memory *out, hd_ctx *ctx, const hd_plan *plan, int threads,
                               const hd_exec_settings *settings);
