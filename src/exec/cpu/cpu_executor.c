/* The CPU executor: set up, and the loop in which each thread runs the phases of a step. How work is divided is in
 * cpu_division.c, memory in cpu_memory.c. */
#include "exec/cpu/cpu_executor.h"

#include <math.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "exec/cpu/cpu_executor_state.h"

static hd_cpu_settings own_settings(const hd_exec_settings *settings) {
  return settings->own ? *(const hd_cpu_settings *)settings->own : (hd_cpu_settings){0};
}

static hd_status measure(hd_exec_memory *out, hd_ctx *ctx, const hd_plan *plan, int threads,
                         const hd_exec_settings *settings) {
  int32_t all[2] = {0, threads};
  hd_exec_cpu exec = {.plan = plan,
                      .settings = *settings,
                      .own = own_settings(settings),
                      .exchange = {.hosts = 1,
                                   .ranks = hd__cluster_ranks(settings->local),
                                   .count = threads,
                                   .here = threads,
                                   .host_first = all}};
  hd_status status = hd__exec_take_threads(&exec, ctx);
  if (status == HD_OK) {
    hd__exec_distribute_shards(&exec);
    *out = hd__exec_count_memory(&exec);
    for (int l = 0; l < threads; l++) {
      const int stage = exec.thread[l].stage;
      out->stage_threads[stage]++;
      out->stage_arenas[stage] += hd__exec_arena_bytes(&exec, l);
    }
  }
  hd__free(exec.thread);
  hd__free(exec.division.border);
  hd__free(exec.division.phase_rows);
  return status;
}

static void destroy(void *self) {
  hd_exec_cpu *exec = self;
  hd__segment_destroy(&exec->local);
  hd__segment_destroy(&exec->common);
  hd__free(exec->thread);
  hd__free(exec->division.border);
  hd__free(exec->division.phase_rows);
  hd__exchange_end(&exec->exchange);
  hd__free(exec->hosts.owned_bytes);
  hd__free(exec->division.speed);
  hd__free(exec->division.rank_of);
  hd__free(exec);
}

static hd_status set_up(hd_exec_cpu *exec, hd_ctx *ctx) {
  HD_TRY(hd__exec_time_threads(exec->threads, ctx, exec->plan->kernels));
  HD_TRY(hd__exec_number_threads(exec, ctx));
  exec->streams = !exec->plan->update.averages && hd__store_bytes(exec->plan) >= STREAM_BYTES;
  exec->stages.apart = exec->own.stages_on_hosts && exec->exchange.hosts > 1 && exec->plan->pipeline.stages.count > 1;
  HD_TRY(hd__exec_check_stage_hosts(exec, ctx));
  HD_TRY(hd__exec_take_threads(exec, ctx));
  hd__exec_distribute_shards(exec);
  HD_TRY(hd__exec_distribute_chunks(exec, ctx));
  if (hd__exec_shares_samples(exec))
    HD_TRY(hd__exec_choose_owners(exec, ctx));
  HD_TRY(hd__exec_take_memory(exec, ctx));
  const bool crowded = hd__exchange_threads(&exec->exchange) > hd__threads_cpus(exec->threads);
  HD_TRY(hd__exchange_open(&exec->exchange, ctx, exec->threads, crowded));
  hd__exec_open_signals(exec, crowded);
  return HD_OK;
}

static hd_status create(void **self, hd_ctx *ctx, const hd_plan *plan, hd_store *store, hd_threads *threads,
                        const hd_exec_settings *settings) {
  hd_exec_cpu *exec = *self = hd__calloc(1, sizeof *exec);
  HD_TRY(HD_ALLOCATED(exec, ctx, "out of memory for the executor"));
  exec->plan = plan;
  exec->store = store;
  exec->threads = threads;
  exec->settings = *settings;
  exec->own = own_settings(settings);
  const hd_status status = set_up(exec, ctx);
  if (status != HD_OK)
    destroy(exec);
  return status;
}

static hd_status trace(void *self, hd_ctx *ctx, hd_trace *trace) {
  hd_exec_cpu *exec = self;
  (void)ctx;
  for (int l = 0; l < exec->exchange.here; l++)
    exec->thread[exec->exchange.first + l].track = &trace->track[exec->exchange.first - hd__exec_host_first(exec) + l];
  return HD_OK;
}

/* The most slices that a thread records in a step. A group has at least as many shards as fit into the arena when each
 * has the largest size. */
static int32_t most_step_slices(const hd_exec_cpu *exec) {
  const hd_plan *plan = exec->plan;
  int64_t largest = (exec->settings.batch + exec->settings.shards - 1) / exec->settings.shards, most = 0;
  int64_t rows = exec->division.group_rows;
  for (int p = 0; p < plan->segments; p++)
    rows = rows < exec->division.phase_rows[p] ? rows : exec->division.phase_rows[p];
  for (int l = 0; l < exec->exchange.count; l++) {
    const int32_t *border = hd__exec_border(exec, exec->thread[l].stage) + l;
    int64_t together = rows < largest ? 1 : rows / largest, shards = border[1] - border[0];
    int64_t groups = (shards + together - 1) / together;
    most = groups > most ? groups : most;
  }
  int64_t of_phases =
      (exec->exchange.hosts > 1 ? 12 : 4) * plan->phase_count; /* itself, gathering, closing or norms, waiting */
  int64_t of_parameters = (exec->exchange.hosts > 1 ? 3 : 2) * plan->param_count;
  const int64_t waits = plan->pipeline.stages.count > 1 ? plan->segments * 2 : 0; /* of each group, for other stages */
  return (int32_t)(2 +
                   exec->settings.micro_batches * (most * (plan->call_count + 1 + waits) + of_phases + of_parameters));
}

static hd_trace_size trace_size(const void *self, int64_t slices) {
  const hd_exec_cpu *exec = self;
  return (hd_trace_size){.threads = hd__exchange_threads(&exec->exchange),
                         .first = exec->exchange.first - hd__exec_host_first(exec),
                         .process_threads = exec->exchange.here,
                         .all_threads = exec->exchange.count,
                         .room = most_step_slices(exec),
                         .slices = slices};
}

static void spent(int64_t *sums, const void *self) { hd__exchange_spent(sums, &((const hd_exec_cpu *)self)->exchange); }

static int facts(void *out, const void *self, hd_fact fact) {
  const hd_exec_cpu *exec = self;
  const int first = hd__exec_host_first(exec), count = hd__exchange_threads(&exec->exchange);
  hd_stage_work *work = out;
  if (fact != HD_FACT_STAGE_WORK || exec->plan->pipeline.stages.count == 1)
    return 0;
  for (int l = 0; l < count && work; l++)
    work[l] = (hd_stage_work){.stage = exec->thread[first + l].stage,
                              .rank = hd__exchange_rank(&exec->exchange, l),
                              .shards = exec->stages.work[first + l].shards,
                              .waited_ns = exec->stages.work[first + l].waited_ns};
  return count;
}

static int64_t bytes(const void *self) {
  const hd_exec_cpu *exec = self;
  return (int64_t)(exec->local.bytes + exec->common.bytes);
}

/* The process's first thread, while the other threads work on the current step: the next step and its layout. */
static void prepare(hd_exec_cpu *exec, int slot) {
  const hd_step_source *source = exec->caller->source;
  exec->slots.has_step[slot] = source->next(source->self, &exec->slots.step[slot]);
  if (exec->slots.has_step[slot])
    hd__exec_layout(exec, slot, exec->slots.step[slot].samples);
}

/* The process's first thread before the closing barrier: adds the losses in order, reports them, prepares the next
 * step. */
static void close_step(const thread_at *at, int slot) {
  hd_exec_cpu *exec = at->exec;
  double sum = 0;
  for (int64_t i = 0; i < at->step->samples; i++)
    sum += (double)exec->batch.losses[i];
  exec->result.loss_sum = sum;
  if (!isfinite(sum))
    at->thread->flags |= HD_FLAG_NOT_FINITE;
  at->thread->flags |= exec->caller->report(exec->caller->source->self, at->step, sum, false);
  prepare(exec, 1 - slot);
  hd__trace_leaf(at->thread->track, HD_SLICE_CLOSE, 0);
}

/* False: the thread must not wait at the next barrier. */
static bool run_phase(const thread_at *at, const hd_phase *phase) {
  bool whole = true;
  switch (phase->kind) {
  case HD_PHASE_SHARDS:
    if (at->exec->plan->pipeline.stages.count > 1)
      whole = hd__exec_pipeline(at, phase);
    else
      hd__exec_shards(at, phase);
    break;
  case HD_PHASE_OUTPUTS: hd__exec_outputs(at, phase); break;
  case HD_PHASE_WHOLE: hd__exec_whole(at, phase); break;
  case HD_PHASE_REDUCE_UPDATE:
  case HD_PHASE_REDUCE_NORM: hd__exec_reduce(at, phase->kind); break;
  case HD_PHASE_UPDATE: hd__exec_update(at); break;
  case HD_PHASE_MATRICES: hd__exec_matrices(at, phase); break;
  }
  if (at->last && (phase->kind == HD_PHASE_REDUCE_UPDATE || phase->kind == HD_PHASE_UPDATE))
    hd__exec_sum_directions(at);
  return whole;
}

/* Exchanges between hosts: of gradients before a phase that reduces; of sums for a gather after the other shards
 * phases; with stages on several hosts of norms. */
static uint32_t exchange_before(const thread_at *at, const hd_phase *phase) {
  const bool reduces = phase->kind == HD_PHASE_REDUCE_UPDATE || phase->kind == HD_PHASE_REDUCE_NORM;
  if (at->exec->stages.apart && phase->kind == HD_PHASE_UPDATE)
    return hd__exec_exchange_norms(at);
  return hd__exec_shares_samples(at->exec) && reduces ? hd__exec_exchange_sums(at) : 0;
}

static uint32_t exchange_after(const thread_at *at, const hd_phase *phase) {
  const bool gathers = at->exec->plan->gathers && phase->kind == HD_PHASE_SHARDS &&
                       phase + 1 < at->exec->plan->phases + at->exec->plan->segments;
  return hd__exec_shares_samples(at->exec) && gathers ? hd__exec_exchange_phase(at, phase) : 0;
}

/* The flags that all hosts have exchanged; flags raised since are sent with the next step's sums. */
static uint32_t agree_on_flags(const thread_at *at, uint32_t all) {
  hd_exec_cpu *exec = at->exec;
  if (exec->exchange.hosts == 1 || all & HD_BARRIER_BROKEN)
    return all;
  if (hd__exec_leads(at))
    exec->hosts.carried |= all & HD_FLAG_STOP;
  return (all & HD_FLAG_NOT_FINITE) | hd__exchange_flags(&exec->exchange);
}

/* Runs all phases of one step; returns the OR of all flags. */
static uint32_t run_step(thread_at *at, int slot) {
  hd_exec_cpu *exec = at->exec;
  uint32_t all = 0;
  at->step = &exec->slots.step[slot];
  at->trained = 0;
  for (int g = 0; g < exec->plan->update.group_count; g++)
    at->trained |= (uint64_t)!at->step->hyper[g].idle << g;
  hd__exec_find_memory(at);
  hd_track *track = at->thread->track;
  hd__trace_step(track);
  int step = hd__trace_open(track, HD_SLICE_STEP, (int32_t)at->step->samples);
  for (int p = 0; p < exec->settings.micro_batches; p++) {
    at->layout = &exec->slots.layout[slot][p];
    at->last = p == exec->settings.micro_batches - 1;
    for (int i = 0; i < exec->plan->phase_count; i++) {
      bool closing = at->last && i == exec->plan->phase_count - 1;
      if (exec->plan->phases[i].kind >= HD_PHASE_UPDATE && !at->last)
        continue;
      int phase = hd__trace_open(track, HD_SLICE_PHASE, i);
      all = exchange_before(at, &exec->plan->phases[i]);
      if (all & HD_BARRIER_BROKEN)
        return all;
      if (!run_phase(at, &exec->plan->phases[i]))
        return HD_BARRIER_BROKEN;
      if (closing && exec->stages.apart && hd__exec_exchange_losses(at) & HD_BARRIER_BROKEN)
        return HD_BARRIER_BROKEN;
      if (closing && at->index == exec->exchange.first)
        close_step(at, slot);
      hd__trace_close(track, phase);
      all = hd__exec_barrier(at, closing ? at->thread->flags : 0);
      hd__trace_leaf(track, HD_SLICE_WAIT, i);
      if (!(all & HD_BARRIER_BROKEN))
        all |= exchange_after(at, &exec->plan->phases[i]) & HD_BARRIER_BROKEN;
      if (all & HD_BARRIER_BROKEN)
        return all;
    }
  }
  hd__trace_close(track, step);
  return agree_on_flags(at, all);
}

/* Whether a step does not count. */
static bool is_lost(uint32_t flags) { return flags & (HD_FLAG_NOT_FINITE | HD_FLAG_NO_DATA | HD_BARRIER_BROKEN); }

/* The update of this step has written packed copies of weights that never counted. */
static void restore_packed(const thread_at *at, uint32_t flags) {
  if (flags & HD_BARRIER_BROKEN)
    return; /* no thread can continue */
  hd__exec_pack(at);
  hd__exec_barrier(at, 0);
}

static void run_thread(void *arg, int local_index) {
  hd_exec_cpu *exec = arg;
  const int index = exec->exchange.first + local_index;
  thread_at at = {.exec = exec, .index = index, .thread = &exec->thread[index]};
  uint64_t version = hd__store_version(exec->store);
  at.buffer = (int)(version & 1);
  at.thread->flags = 0;
  hd__log_thread("thread", index);
  exec->result.bad_param[index] = -1;
  hd__trace_start(at.thread->track);
  hd__tally_start(at.thread->tally);
  for (int slot = 0; exec->slots.has_step[slot]; slot = 1 - slot) {
    uint32_t all = run_step(&at, slot);
    HD_LOG(EXEC, "step of %lld samples ended, flags %#x", (long long)at.step->samples, (unsigned)all);
    if (local_index == 0) {
      exec->result.flags = all;
      if (!is_lost(all)) {
        hd__store_set_version(exec->store, ++version);
        exec->caller->report(exec->caller->source->self, at.step, exec->result.loss_sum, true);
        hd__trace_leaf(at.thread->track, HD_SLICE_REPORT, 0);
      }
    }
    if (is_lost(all))
      restore_packed(&at, all);
    if (all)
      break;
    at.buffer = 1 - at.buffer;
  }
}

/* Names the first thread's parameter; with stages on several hosts the first rank's. */
static hd_status not_finite(hd_exec_cpu *exec, hd_ctx *ctx) {
  int32_t param = -1, all[HD_LOCAL_GROUP_MOST_RANKS];
  for (int l = exec->exchange.host_first[exec->exchange.host + 1] - 1; l >= hd__exec_host_first(exec); l--)
    param = exec->result.bad_param[l] >= 0 ? exec->result.bad_param[l] : param;
  if (exec->stages.apart)
    HD_TRY(hd__cluster_gather(all, exec->settings.local, ctx, &param, sizeof param));
  for (int r = exec->stages.apart ? exec->exchange.ranks - 1 : -1; r >= 0; r--)
    param = all[r] >= 0 ? all[r] : param;
  return hd__exec_not_finite(ctx, exec->plan, param);
}

static hd_status run(void *self, hd_ctx *ctx, hd_exec_caller *caller, uint32_t *flags) {
  hd_exec_cpu *exec = self;
  exec->caller = caller;
  exec->result.flags = 0;
  prepare(exec, 0);
  const hd_status status = hd__threads_run(exec->threads, ctx, run_thread, exec);
  *flags = exec->result.flags;
  HD_TRY(status);
  if (*flags & HD_BARRIER_BROKEN)
    return hd__local_group_check(exec->settings.local, ctx);
  if (*flags & HD_FLAG_NO_DATA) /* takes precedence: missing samples may have made values not finite */
    return HD_OK;
  return *flags & HD_FLAG_NOT_FINITE ? not_finite(exec, ctx) : HD_OK;
}

const hd_executor hd__cpu_executor = {.threads_compute = true,
                                      .versions_in_store = true,
                                      .runs_stages = true,
                                      .recomputes = true,
                                      .guards = true,
                                      .create = create,
                                      .destroy = destroy,
                                      .run = run,
                                      .evaluate = hd__exec_cpu_evaluate,
                                      .fetches = hd__exec_cpu_fetches,
                                      .facts = facts,
                                      .trace = trace,
                                      .trace_size = trace_size,
                                      .spent = spent,
                                      .collect = hd__exec_cpu_collect,
                                      .spread = hd__exec_cpu_spread,
                                      .bytes = bytes,
                                      .measure = measure};
