/* What a configuration derives from a network before memory is allocated: kernels, shards, the executors' settings, and
 * the bytes that all of it will take. Used by sessions and by summaries. */
#pragma once

#include "base/tools_api.h"
#include "exec/executor.h"
#include "graph/graph.h"
#include "heddle/summary.h"
#include "train/placement/device_open.h"
#include "train/settings/config.h"

/* The best kernels of this CPU, or those that HEDDLE_ISA names. */
HD_TOOLS_API hd_status hd__planned_kernels(const hd_kernels **out, hd_ctx *ctx);

/* The kernels of a run on threads: for its --precision. HD_E_UNSUPPORTED: no library for --arithmetic native. */
hd_status hd__planned_run_kernels(const hd_kernels **out, hd_ctx *ctx, const hd_config *config);

/* With --arithmetic native: those of a plan for the shards of such a batch, 0 for an evaluation. */
const hd_kernels *hd__planned_native_kernels(const hd_kernels *of_threads, int64_t batch, int32_t shards);

/* The library of --arithmetic native, "OpenBLAS 0.3.21 SkylakeX"; "" for portable. Static. */
const char *hd__planned_library(const hd_config *config);

/* The shards of a batch: as configured, else derived from the batch. Checks that --accumulate fits. */
hd_status hd__planned_shards(int32_t *out, hd_ctx *ctx, const hd_config *config);

/* Applies the rules of --parameters, a text, to a graph, after the model's rules. */
hd_status hd__planned_rules(hd_graph *graph, hd_ctx *ctx, const char *text);

/* Freezes what --freeze names, all but a new head's parameters, after the rules; in the second stage of a run not what
 * --unfreeze names. The epoch in which that begins; INT64_MAX: never. */
hd_status hd__planned_freeze(hd_graph *graph, hd_ctx *ctx, const hd_config *config, bool second_stage);
int64_t hd__planned_second_stage(const hd_config *config);

HD_TOOLS_API hd_plan_settings hd__planned_passes(const hd_config *config, bool train);

/* The settings of the executors of training and of evaluation. A device evaluates as many samples at a time as keep it
 * busy; no result depends on it. */
hd_exec_settings hd__planned_training(const hd_config *config, int32_t shards, const hd_run_device *device);
hd_exec_settings hd__planned_evaluation(const hd_plan *plan, const hd_run_device *device);

typedef struct hd_planned {
  const hd_plan *plan, *eval_plan;
  hd_exec_settings train, eval;
  int threads;
} hd_planned;

/* The memory of a session with this plan, to the byte. */
hd_status hd__planned_memory(hd_memory *out, hd_ctx *ctx, const hd_planned *planned);
