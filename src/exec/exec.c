/* The executor: its memory, and the loop in which lanes walk from phase to phase. */
#include "exec/exec.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/hosts.h"
#include "exec/exec_cuda.h"
#include "exec/exec_state.h"

/* An arena larger than this no longer stays in a core's second-level cache while a group passes through the network. */
enum { ARENA_TARGET_BYTES = 640 << 10, ALIGN_BYTES = 128, PAGE_BYTES = 4096 };

/* A bump allocator that runs twice: first with base NULL to count, then over the mapped segment. */
typedef struct bump {
  char *base;
  int64_t used;
  hd_exec_memory by; /* `used`, by use */
} bump;

static void *take(bump *b, int64_t *use, int64_t bytes) {
  int64_t at = b->used, whole = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  b->used += whole;
  *use += whole;
  return b->base ? b->base + at : NULL;
}

/* Stack slots for the covers of `shards` neighbouring shards: two per level of the tree, and the one being pushed. */
static int64_t cover_slots(int64_t shards) {
  int64_t levels = 0;
  while ((int64_t)1 << levels < shards)
    levels++;
  return shards < 2 * levels + 1 ? shards : 2 * levels + 1;
}

static void lay_out_lane(hd_exec *exec, bump *b, int index) {
  const hd_plan *plan = exec->plan;
  lane_state *lane = &exec->lane[index];
  take(b, &b->by.bookkeeping, -b->used & (PAGE_BYTES - 1)); /* no page has two lanes */
  lane->arena = take(b, &b->by.activations, plan->arena_bytes * exec->group_rows);
  lane->scratch = take(b, &b->by.activations, plan->scratch_bytes);
  lane->targets = take(b, &b->by.activations, exec->group_rows * exec->target_bytes);
  lane->fetch = take(b, &b->by.fetch, exec->settings.fetch_bytes);
  lane->tile = take(b, &b->by.bookkeeping, TILE_ELEMS * (int64_t)sizeof *lane->tile);
  lane->other_tile = take(b, &b->by.bookkeeping,
                          plan->grad_elems > plan->trained_elems ? TILE_ELEMS * (int64_t)sizeof *lane->tile : 0);
  int64_t meeting = plan->gathers ? plan->direct_elems * (int64_t)sizeof *lane->gathered : 0;
  lane->gathered = take(b, &b->by.gradients, meeting);
  lane->stack = take(b, &b->by.gradients, HD_MAX_FOLD_DEPTH * meeting);
  lane->norms = take(b, &b->by.bookkeeping, plan->chunk_count * (int64_t)sizeof *lane->norms);
}

static int part_levels(int parts) {
  int levels = 0;
  while (1 << levels < parts)
    levels++;
  return levels;
}

/* What comes from other hosts, and goes there. */
static void lay_out_crossing(hd_exec *exec, bump *b) {
  const hd_plan *plan = exec->plan;
  int64_t slots = 0;
  if (exec->hosts == 1)
    return;
  for (int h = 0; h < exec->hosts; h++)
    slots += cover_slots(exec->border[exec->host_lane[h + 1]] - exec->border[exec->host_lane[h]]);
  exec->host_sum = take(b, &b->by.gradients, slots * plan->grad_elems * (int64_t)sizeof *exec->host_sum);
  if (exec->has_owners)
    exec->owned_sum = take(b, &b->by.gradients, plan->grad_elems * (int64_t)sizeof *exec->owned_sum);
  const int64_t ranks = hd__hosts_ranks(exec->settings.world);
  exec->host_spent = take(b, &b->by.bookkeeping, ranks * (HD_SPENT_KINDS + ranks) * (int64_t)sizeof *exec->host_spent);
  const int64_t gathered = plan->gathers ? exec->settings.shards * plan->direct_elems : 0;
  exec->crossing = take(b, &b->by.gradients, gathered * (int64_t)sizeof *exec->crossing);
  exec->host_flags = take(b, &b->by.bookkeeping, exec->hosts * (int64_t)sizeof *exec->host_flags);
  exec->agreed_flags = take(b, &b->by.bookkeeping, sizeof *exec->agreed_flags);
}

/* What lanes of all ranks read. */
static void lay_out_common(hd_exec *exec, bump *b) {
  const hd_plan *plan = exec->plan;
  const int parts = exec->settings.parts, ranks = hd__hosts_ranks(exec->settings.world);
  int64_t capacity = (exec->settings.batch + parts - 1) / parts;
  exec->lines = take(b, &b->by.bookkeeping, HD_MEETING_LINES(hd__exec_host_lanes(exec)) * (int64_t)sizeof *exec->lines);
  exec->batch_memory = take(b, &b->by.activations, plan->batch_bytes * capacity);
  exec->losses = take(b, &b->by.activations, exec->settings.batch * (int64_t)sizeof *exec->losses);
  exec->targets = take(b, &b->by.activations, exec->settings.batch * exec->target_bytes);
  exec->bad_param = take(b, &b->by.bookkeeping, exec->lane_count * (int64_t)sizeof *exec->bad_param);
  exec->chunk_norm = take(b, &b->by.bookkeeping, plan->chunk_count * (int64_t)sizeof *exec->chunk_norm);
  exec->grad = take(b, &b->by.gradients, exec->settings.clip_norm > 0 ? plan->trained_elems * 4 : 0);
  exec->part_sum = take(b, &b->by.gradients, part_levels(parts) * plan->grad_elems * 4);
  lay_out_crossing(exec, b);
  for (int l = 0; l < exec->lane_count; l++) {
    const int64_t slots = cover_slots(exec->border[l + 1] - exec->border[l]);
    take(b, &b->by.bookkeeping, -b->used & (PAGE_BYTES - 1));
    exec->lane[l].cover = take(b, &b->by.gradients, slots * plan->direct_elems * (int64_t)sizeof(float));
    if (ranks > 1 && l >= hd__exec_host_first(exec) && l < exec->host_lane[exec->host + 1])
      exec->lane[l].tally = take(b, &b->by.bookkeeping, hd__tally_bytes(ranks));
  }
}

static void lay_out_own(hd_exec *exec, bump *b) {
  int parts = exec->settings.parts;
  for (int parity = 0; parity < 2; parity++) {
    exec->layout[parity] = take(b, &b->by.bookkeeping, parts * (int64_t)sizeof *exec->layout[parity]);
    for (int p = 0; p < parts; p++) {
      hd_range_plan *ranges = take(b, &b->by.bookkeeping, exec->lane_count * (int64_t)sizeof *ranges);
      host_layout *hosts = exec->hosts > 1 ? take(b, &b->by.bookkeeping, sizeof *hosts) : NULL;
      const int64_t numbers = exec->hosts > 1 ? 2 * (exec->hosts + 1) * (int64_t)sizeof *hosts->cover : 0;
      int32_t *number = take(b, &b->by.bookkeeping, numbers);
      if (b->base) {
        exec->layout[parity][p].range = ranges;
        exec->layout[parity][p].hosts = hosts;
      }
      if (hosts && b->base) {
        hosts->cover = number;
        hosts->piece = number + exec->hosts + 1;
      }
    }
  }
  const int64_t blocks = exec->hosts > 1 ? HOST_BLOCKS * exec->hosts : 0;
  exec->block_bytes = take(b, &b->by.bookkeeping, blocks * (int64_t)sizeof *exec->block_bytes);
  for (int l = 0; l < exec->own_lanes; l++)
    lay_out_lane(exec, b, exec->first_lane + l);
}

/* Lanes without a shard still work on chunks. */
static void share_out(hd_exec *exec) {
  const hd_plan *plan = exec->plan;
  int label = plan->graph->label;
  exec->target_bytes = plan->place[label].stride * hd__dtype_bytes(plan->graph->values[label].dtype);
  if (plan->gathers)
    exec->settings.parts = 1; /* the whole batch goes through a phase together */
  int32_t shards = exec->settings.shards / exec->settings.parts;
  int64_t largest = (exec->settings.batch + exec->settings.shards - 1) / exec->settings.shards;
  int64_t rows = 1;
  hd__tree_deal(exec->border, shards, exec->speed, exec->lane_count);
  for (int l = 0; l < exec->lane_count; l++)
    if (rows < (exec->border[l + 1] - exec->border[l]) * largest)
      rows = (exec->border[l + 1] - exec->border[l]) * largest;
  int64_t fitting = plan->arena_bytes > 0 ? ARENA_TARGET_BYTES / plan->arena_bytes : rows;
  exec->group_rows = rows < fitting ? rows : fitting < largest ? largest : fitting;
}

static hd_status share_chunks(hd_exec *exec, hd_ctx *ctx) {
  const hd_plan *plan = exec->plan;
  int64_t *weight = hd__malloc((size_t)plan->chunk_count * sizeof *weight);
  if (!weight)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while sharing out chunks");
  for (int c = 0; c < plan->chunk_count; c++)
    weight[c] = plan->chunks[c].weight;
  const int first = hd__exec_host_first(exec), lanes = hd__exec_host_lanes(exec);
  for (int l = 0; l < lanes; l++) /* each host has all chunks */
    hd__tree_split(&exec->lane[first + l].chunk_lo, &exec->lane[first + l].chunk_hi, weight, plan->chunk_count,
                   exec->speed ? exec->speed + first : NULL, lanes, l);
  hd__free(weight);
  return HD_OK;
}

static hd_status take_lanes(hd_exec *exec, hd_ctx *ctx) {
  size_t lanes = (size_t)exec->lane_count;
  exec->lane = hd__malloc_aligned(lanes * sizeof *exec->lane);
  exec->border = hd__malloc((lanes + 1) * sizeof *exec->border);
  if (!exec->lane || !exec->border)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d lanes", exec->lane_count);
  memset(exec->lane, 0, lanes * sizeof *exec->lane);
  return HD_OK;
}

hd_status hd__exec_measure(hd_exec_memory *out, hd_ctx *ctx, const hd_plan *plan, int lanes,
                           const hd_exec_settings *settings) {
  int32_t all[2] = {0, lanes};
  hd_exec exec = {.plan = plan, .settings = *settings, .lane_count = lanes, .own_lanes = lanes, .hosts = 1};
  exec.host_lane = all;
  bump common = {0}, own = {0};
  hd_status status = take_lanes(&exec, ctx);
  if (status == HD_OK) {
    share_out(&exec);
    lay_out_common(&exec, &common);
    lay_out_own(&exec, &own);
    *out = (hd_exec_memory){.activations = common.by.activations + own.by.activations,
                            .fetch = common.by.fetch + own.by.fetch,
                            .gradients = common.by.gradients + own.by.gradients,
                            .bookkeeping = common.by.bookkeeping + own.by.bookkeeping};
    out->mapped = (int64_t)(hd__segment_bytes((size_t)common.used) + hd__segment_bytes((size_t)own.used));
  }
  hd__free(exec.lane);
  hd__free(exec.border);
  return status;
}

/* Pages come from the node of the lane that touches them first. With several nodes, a lane's own memory is bound to its
 * node, too, and the owners of chunks touch the weights before others fill them. Batch memory and arenas are first
 * touched by the lanes whose rows they hold, in the first step. */
static void touch_chunks(void *arg, int own) {
  const hd_exec *exec = arg;
  const hd_plan *plan = exec->plan;
  const int index = exec->first_lane + own;
  for (int32_t c = exec->lane[index].chunk_lo; c < exec->lane[index].chunk_hi; c++) {
    const hd_chunk *chunk = &plan->chunks[c];
    int64_t columns = hd__param_columns(&plan->graph->params[chunk->param]);
    hd__store_touch(exec->store, plan->params[chunk->param].offset + chunk->j0 * columns,
                    (chunk->j1 - chunk->j0) * columns, plan->params[chunk->param].trained);
  }
}

static hd_status settle(hd_exec *exec, hd_ctx *ctx) {
  char *from[HD_MAX_THREADS + 1];
  if (!hd__lanes_far_apart(exec->lanes))
    return HD_OK;
  for (int l = 0; l < exec->own_lanes; l++)
    from[l] = exec->lane[exec->first_lane + l].arena;
  from[exec->own_lanes] = (char *)exec->memory.base + exec->memory.bytes;
  hd__lanes_bind_memory(exec->lanes, from);
  for (int l = 0; l <= exec->own_lanes; l++)
    from[l] = exec->first_lane + l < exec->lane_count ? (char *)exec->lane[exec->first_lane + l].cover
                                                      : (char *)exec->common.base + exec->common.bytes;
  hd__lanes_bind_memory(exec->lanes, from);
  return hd__lanes_run(exec->lanes, ctx, touch_chunks, exec);
}

static hd_status take_memory(hd_exec *exec, hd_ctx *ctx) {
  bump own = {0}, common = {0};
  lay_out_common(exec, &common);
  lay_out_own(exec, &own);
  HD_TRY(hd__world_memory(&exec->common, exec->settings.world, ctx, (size_t)common.used, "batches and gradients"));
  HD_TRY(hd__segment_create(&exec->memory, ctx, (size_t)own.used, "activations"));
  lay_out_common(exec, &(bump){.base = exec->common.base});
  lay_out_own(exec, &(bump){.base = exec->memory.base});
  return HD_OK;
}

hd_status hd__exec_create(hd_exec **out, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_lanes *lanes,
                          const hd_exec_settings *settings) {
  *out = NULL;
  hd_exec *exec = hd__calloc(1, sizeof *exec);
  if (!exec)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the executor");
  exec->plan = plan;
  exec->store = store;
  exec->lanes = lanes;
  exec->settings = *settings;
  if (settings->cuda) {
    const hd_status on_gpu = hd__exec_cuda_create(&exec->cuda, ctx, plan, store, lanes, settings);
    if (on_gpu == HD_OK)
      *out = exec;
    else
      hd__free(exec);
    return on_gpu;
  }
  hd_status status = hd__exec_time_lanes(lanes, ctx, plan->kernels);
  if (status == HD_OK)
    status = hd__exec_number_lanes(exec, ctx);
  if (status == HD_OK)
    status = take_lanes(exec, ctx);
  if (status != HD_OK)
    goto out;
  share_out(exec);
  status = share_chunks(exec, ctx);
  if (status == HD_OK && exec->hosts > 1)
    status = hd__exec_choose_owners(exec, ctx);
  if (status == HD_OK)
    status = take_memory(exec, ctx);
  if (status == HD_OK)
    status = settle(exec, ctx);
  if (status == HD_OK)
    status = hd__exec_open_meeting(exec, ctx);
out:
  if (status == HD_OK)
    *out = exec;
  else
    hd__exec_destroy(exec);
  return status;
}

void hd__exec_destroy(hd_exec *exec) {
  if (!exec)
    return;
  hd__exec_cuda_destroy(exec->cuda);
  hd__segment_destroy(&exec->memory);
  hd__segment_destroy(&exec->common);
  hd__free(exec->lane);
  hd__free(exec->border);
  hd__free(exec->rank_lane);
  hd__free(exec->host_lane);
  hd__free(exec->owned_bytes);
  hd__free(exec->speed);
  hd__free(exec);
}

const char *hd__exec_gpu_sums(const hd_exec *exec) { return exec->cuda ? hd__exec_cuda_sums(exec->cuda) : ""; }
const char *hd__exec_gpu_sums_why(const hd_exec *exec) { return exec->cuda ? hd__exec_cuda_sums_why(exec->cuda) : ""; }

hd_status hd__exec_trace(hd_exec *exec, hd_ctx *ctx, hd_trace *trace) {
  if (exec->cuda)
    return hd__exec_cuda_trace(exec->cuda, ctx, trace);
  for (int l = 0; l < exec->own_lanes; l++)
    exec->lane[exec->first_lane + l].track = &trace->track[exec->first_lane - hd__exec_host_first(exec) + l];
  return HD_OK;
}

/* The most slices that a lane records in a step. A group has at least as many shards as fit into the arena when each is
 * of the largest size. */
static int32_t most_step_slices(const hd_exec *exec) {
  const hd_plan *plan = exec->plan;
  int64_t largest = (exec->settings.batch + exec->settings.shards - 1) / exec->settings.shards, most = 0;
  for (int l = 0; l < exec->lane_count; l++) {
    int64_t together = exec->group_rows / largest, shards = exec->border[l + 1] - exec->border[l];
    int64_t groups = (shards + together - 1) / together;
    most = groups > most ? groups : most;
  }
  int64_t of_phases = (exec->hosts > 1 ? 12 : 4) * plan->phase_count; /* itself, gathering, closing or norms, waiting */
  int64_t of_parameters = (exec->hosts > 1 ? 3 : 2) * plan->param_count;
  return (int32_t)(2 + exec->settings.parts * (most * (plan->call_count + 1) + of_phases + of_parameters));
}

hd_trace_size hd__exec_trace_size(const hd_exec *exec, int64_t slices) {
  if (exec->cuda)
    return hd__exec_cuda_trace_size(exec->cuda, slices);
  return (hd_trace_size){.lanes = hd__exec_host_lanes(exec),
                         .first = exec->first_lane - hd__exec_host_first(exec),
                         .own = exec->own_lanes,
                         .all_lanes = exec->lane_count,
                         .room = most_step_slices(exec),
                         .slices = slices};
}

int64_t hd__exec_bytes(const hd_exec *exec) { return (int64_t)(exec->memory.bytes + exec->common.bytes); }

/* The process's first lane, while the others still work on the step before: what comes next, and its layout. */
static void prepare(hd_exec *exec, int parity) {
  exec->has_step[parity] = exec->driver->next(exec->driver->self, &exec->step[parity]);
  if (exec->has_step[parity])
    hd__exec_layout(exec, parity, exec->step[parity].samples);
}

/* The process's first lane before the closing meeting: adds the losses in order, asks for flags, prepares the next
 * step. */
static void close_step(const lane_at *at, int parity) {
  hd_exec *exec = at->exec;
  double sum = 0;
  for (int64_t i = 0; i < at->step->samples; i++)
    sum += (double)exec->losses[i];
  exec->result.loss_sum = sum;
  if (!isfinite(sum))
    at->lane->flags |= HD_FLAG_NOT_FINITE;
  if (exec->driver->closing)
    at->lane->flags |= exec->driver->closing(exec->driver->self, at->step, &exec->result);
  prepare(exec, 1 - parity);
  hd__trace_leaf(at->lane->track, HD_SLICE_CLOSE, 0);
}

static void run_phase(const lane_at *at, const hd_phase *phase) {
  switch (phase->kind) {
  case HD_PHASE_SHARDS: hd__exec_shards(at, phase); break;
  case HD_PHASE_OUTPUTS: hd__exec_outputs(at, phase); break;
  case HD_PHASE_FOLD_UPDATE:
  case HD_PHASE_FOLD_NORM: hd__exec_fold(at, phase->kind); break;
  case HD_PHASE_UPDATE: hd__exec_update(at); break;
  }
}

/* Sums over all hosts, before a phase that folds; what a gather reads, behind one of the other shards phases. */
static uint32_t cross_before(const lane_at *at, const hd_phase *phase) {
  const bool folds = phase->kind == HD_PHASE_FOLD_UPDATE || phase->kind == HD_PHASE_FOLD_NORM;
  return at->exec->hosts > 1 && folds ? hd__exec_cross_sums(at) : 0;
}

static uint32_t cross_behind(const lane_at *at, const hd_phase *phase) {
  const bool gathers = at->exec->plan->gathers && phase->kind == HD_PHASE_SHARDS &&
                       phase + 1 < at->exec->plan->phases + at->exec->plan->segments;
  return at->exec->hosts > 1 && gathers ? hd__exec_cross_phase(at, phase) : 0;
}

/* What all hosts know of each other's flags; those that were raised since go with the next step's sums. */
static uint32_t agree_on_flags(const lane_at *at, uint32_t all) {
  hd_exec *exec = at->exec;
  if (exec->hosts == 1 || all & HD_MEETING_BROKEN)
    return all;
  if (hd__exec_leads(at))
    exec->carried |= all & HD_FLAG_STOP;
  return (all & HD_FLAG_NOT_FINITE) | *exec->agreed_flags;
}

/* All phases of one step; returns everybody's flags. */
static uint32_t run_step(lane_at *at, int parity) {
  hd_exec *exec = at->exec;
  uint32_t all = 0;
  at->step = &exec->step[parity];
  hd_track *track = at->lane->track;
  hd__trace_step(track);
  int step = hd__trace_open(track, HD_SLICE_STEP, (int32_t)at->step->samples);
  for (int p = 0; p < exec->settings.parts; p++) {
    at->layout = &exec->layout[parity][p];
    at->last = p == exec->settings.parts - 1;
    for (int i = 0; i < exec->plan->phase_count; i++) {
      bool closing = at->last && i == exec->plan->phase_count - 1;
      if (exec->plan->phases[i].kind == HD_PHASE_UPDATE && !at->last)
        continue;
      int phase = hd__trace_open(track, HD_SLICE_PHASE, i);
      all = cross_before(at, &exec->plan->phases[i]);
      if (all & HD_MEETING_BROKEN)
        return all;
      run_phase(at, &exec->plan->phases[i]);
      if (closing && at->index == exec->first_lane)
        close_step(at, parity);
      hd__trace_close(track, phase);
      all = hd__exec_meet(at, closing ? at->lane->flags : 0);
      hd__trace_leaf(track, HD_SLICE_WAIT, i);
      if (!(all & HD_MEETING_BROKEN))
        all |= cross_behind(at, &exec->plan->phases[i]) & HD_MEETING_BROKEN;
      if (all & HD_MEETING_BROKEN)
        return all;
    }
  }
  hd__trace_close(track, step);
  return agree_on_flags(at, all);
}

static void run_lane(void *arg, int own) {
  hd_exec *exec = arg;
  const int index = exec->first_lane + own;
  lane_at at = {.exec = exec, .index = index, .lane = &exec->lane[index]};
  uint64_t version = hd__store_version(exec->store);
  at.half = (int)(version & 1);
  at.lane->flags = 0;
  at.lane->held_by = -1;
  exec->bad_param[index] = -1;
  hd__trace_start(at.lane->track);
  hd__tally_start(at.lane->tally);
  for (int parity = 0; exec->has_step[parity]; parity = 1 - parity) {
    uint32_t all = run_step(&at, parity);
    if (own == 0) {
      exec->last_flags = all;
      if (!(all & (HD_FLAG_NOT_FINITE | HD_FLAG_NO_DATA | HD_MEETING_BROKEN))) {
        hd__store_set_version(exec->store, ++version);
        exec->driver->done(exec->driver->self, at.step, &exec->result);
        hd__trace_leaf(at.lane->track, HD_SLICE_REPORT, 0);
      }
    }
    if (all)
      break;
    at.half = 1 - at.half;
  }
}

hd_status hd__exec_not_finite(hd_ctx *ctx, const hd_plan *plan, int32_t param) {
  const char *what = param < 0 ? "the loss" : plan->graph->values[plan->graph->params[param].value].name;
  return hd__fail(ctx, HD_E_NOTFINITE, "expected finite numbers, found NaN or infinity in %s%s",
                  param < 0 ? "" : "the update of ", what);
}

static hd_status not_finite(hd_exec *exec, hd_ctx *ctx) {
  int32_t param = -1;
  for (int l = exec->host_lane[exec->host + 1] - 1; l >= hd__exec_host_first(exec); l--)
    param = exec->bad_param[l] >= 0 ? exec->bad_param[l] : param;
  return hd__exec_not_finite(ctx, exec->plan, param);
}

hd_status hd__exec_run(hd_exec *exec, hd_ctx *ctx, const hd_driver *driver, uint32_t *flags) {
  if (exec->cuda) {
    HD_TRY(hd__exec_cuda_run(exec->cuda, ctx, driver, flags));
    return *flags & HD_FLAG_NO_DATA ? hd__exec_why(exec, ctx, driver) : HD_OK;
  }
  exec->driver = driver;
  exec->last_flags = 0;
  prepare(exec, 0);
  hd_status status = hd__lanes_run(exec->lanes, ctx, run_lane, exec);
  *flags = exec->last_flags;
  if (status == HD_OK && exec->last_flags & HD_MEETING_BROKEN)
    status = hd__world_check(exec->settings.world, ctx);
  else if (status == HD_OK && exec->last_flags & HD_FLAG_NO_DATA) /* before what it made of the numbers */
    status = hd__exec_why(exec, ctx, driver);
  else if (status == HD_OK && exec->last_flags & HD_FLAG_NOT_FINITE)
    status = not_finite(exec, ctx);
  return status;
}
