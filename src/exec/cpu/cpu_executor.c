/* The CPU executor: its memory, and the loop in which each thread runs the phases of a step. */
#include "exec/cpu/cpu_executor.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "exec/cpu/cpu_executor_state.h"

/* A larger arena does not stay in a core's second-level cache while a group passes through the network. Weights larger
 * than CACHED_WEIGHTS do not either, so each of them should be used at least WANTED_PRODUCTS times when it is read. */
enum { ARENA_TARGET_BYTES = 640 << 10, CACHED_WEIGHTS = 256 << 10, WANTED_PRODUCTS = 64 };

/* A recurrent layer reads its weights for each place: from this many samples on not much longer than it computes. */
enum { ROWS_IN_TURN = 6 };

/* A larger arena is worth its memory only where all calls of a phase together would wait for weights otherwise. */
enum { ARENA_MOST_BYTES = 32 << 20, WAITING_SHARE = 4 };
enum { ALIGN_BYTES = 128, PAGE_BYTES = 4096 };

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

/* Of a sample, in a phase: where the last of its calls' values in the arena ends. */
static int64_t phase_arena_bytes(const hd_plan *plan, const hd_phase *phase) {
  int64_t bytes = phase == plan->phases && plan->io.input.where == HD_AT_ARENA
                      ? plan->io.input.offset + plan->io.input.row_bytes
                      : 0;
  for (const hd_plan_call *call = plan->calls + phase->call0; call < plan->calls + phase->call1; call++)
    for (int i = 0; i < HD_MAX_IN + HD_MAX_OUT; i++) {
      const hd_place *place = i < HD_MAX_IN ? &call->in[i] : &call->out[i - HD_MAX_IN];
      const int64_t end = place->where == HD_AT_ARENA ? place->offset + place->row_bytes : 0;
      bytes = bytes > end ? bytes : end;
    }
  return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

/* Whether phases have groups of different sizes. Stages keep values in their arenas from phase to phase, and guards lie
 * behind the values of one size. */
static bool has_phase_rows(const hd_plan *plan) {
  return plan->pipeline.stages.count == 1 && !plan->guarded && (plan->trains || plan->segments == 1);
}

static int64_t arena_bytes(const hd_exec_cpu *exec, int thread) {
  const hd_plan *plan = exec->plan;
  int64_t most = 0;
  if (!has_phase_rows(plan))
    return exec->thread[thread].arenas * plan->size.stage_arena_bytes[exec->thread[thread].stage] *
           exec->division.group_rows;
  for (int p = 0; p < plan->segments; p++) {
    const int64_t bytes = exec->division.phase_rows[p] * phase_arena_bytes(plan, &plan->phases[p]);
    most = most > bytes ? most : bytes;
  }
  return exec->thread[thread].arenas * most;
}

/* Memory of values, which starts at a page. */
static void *take_values(bump *b, int64_t bytes) {
  take(b, &b->by.bookkeeping, -b->used & (PAGE_BYTES - 1));
  return take(b, &b->by.activations, bytes);
}

/* A thread sends and receives each shard at most once forward and once backward. */
static void take_mail(const hd_exec_cpu *exec, bump *b, thread_state *thread) {
  const int64_t transfers = 2 * exec->settings.shards;
  stage_mail *const mail[] = {&thread->sent, &thread->received[0], &thread->received[1]};
  for (int i = 0; i < 3; i++) {
    mail[i]->transfer = take(b, &b->by.bookkeeping, transfers * (int64_t)sizeof *mail[i]->transfer);
    mail[i]->peer = take(b, &b->by.bookkeeping, transfers * (int64_t)sizeof *mail[i]->peer);
  }
  thread->parts = take(b, &b->by.bookkeeping, exec->plan->pipeline.cut_edge_count * (int64_t)sizeof *thread->parts);
}

/* Scratch that forming gradients needs. */
static int64_t form_scratch_bytes(const hd_exec_cpu *exec) {
  const hd_plan *plan = exec->plan;
  const int64_t micro_batches = exec->settings.micro_batches;
  const int64_t rows = (exec->settings.batch + micro_batches - 1) / micro_batches;
  int64_t most = 0;
  for (const hd_plan_use *use = plan->update.uses; use < plan->update.uses + plan->update.use_count; use++) {
    const int64_t bytes = use->form ? hd_form_scratch_bytes(plan->kernels, use->op, use->geom, rows) : 0;
    most = most > bytes ? most : bytes;
  }
  return most;
}

static void lay_out_thread(hd_exec_cpu *exec, bump *b, int index) {
  const hd_plan *plan = exec->plan;
  thread_state *thread = &exec->thread[index];
  thread->tally = hd__exchange_tally(&exec->exchange, index - hd__exec_host_first(exec));
  thread->arenas = hd__exec_arenas(exec, index);
  thread->arena = take_values(b, arena_bytes(exec, index)); /* no page has two threads */
  const int64_t form_scratch = form_scratch_bytes(exec);
  thread->scratch =
      take(b, &b->by.activations, form_scratch > plan->size.scratch_bytes ? form_scratch : plan->size.scratch_bytes);
  thread->targets = take(b, &b->by.activations, exec->division.group_rows * exec->batch.target_bytes);
  thread->fetch = take(b, &b->by.fetch, exec->settings.fetch_bytes);
  thread->tile = take(b, &b->by.bookkeeping, TILE_ELEMS * (int64_t)sizeof *thread->tile);
  thread->other_tile =
      take(b, &b->by.bookkeeping,
           plan->size.grad_elems > plan->size.trained_elems ? TILE_ELEMS * (int64_t)sizeof *thread->tile : 0);
  if (exec->stages.apart)
    take_mail(exec, b, thread);
  const int64_t gathered = plan->size.gathered_elems * (int64_t)sizeof *thread->gathered;
  thread->gathered = take(b, &b->by.gradients, gathered);
  thread->stack = take(b, &b->by.gradients, HD_MAX_REDUCTION_DEPTH * gathered);
  thread->norms = take(b, &b->by.bookkeeping, plan->chunk_count * (int64_t)sizeof *thread->norms);
}

/* Buffers for the exchange between hosts. */
static void lay_out_exchange(hd_exec_cpu *exec, bump *b) {
  const hd_plan *plan = exec->plan;
  int64_t slots = 0;
  if (!hd__exec_shares_samples(exec))
    return;
  for (int h = 0; h < exec->exchange.hosts; h++)
    slots += hd__tree_most_sums(exec->division.host_border[h], exec->division.host_border[h + 1]);
  exec->hosts.sum = take(b, &b->by.gradients, slots * plan->size.grad_elems * (int64_t)sizeof *exec->hosts.sum);
  if (exec->hosts.has_owners)
    exec->hosts.owned_sum = take(b, &b->by.gradients, plan->size.grad_elems * (int64_t)sizeof *exec->hosts.owned_sum);
  const int64_t gathered = exec->settings.shards * plan->size.gathered_elems;
  exec->hosts.gathered = take(b, &b->by.gradients, gathered * (int64_t)sizeof *exec->hosts.gathered);
}

/* Memory shared by the threads of all ranks of the host. */
static void lay_out_common(hd_exec_cpu *exec, bump *b) {
  const hd_plan *plan = exec->plan;
  const int micro_batches = exec->settings.micro_batches;
  int64_t capacity = (exec->settings.batch + micro_batches - 1) / micro_batches;
  hd__exchange_lay_out(&exec->exchange, take(b, &b->by.bookkeeping, hd__exchange_lay_out(&exec->exchange, NULL)));
  hd__exec_lay_out_signals(exec, take(b, &b->by.bookkeeping, hd__exec_lay_out_signals(exec, NULL)));
  exec->batch.capacity = capacity;
  exec->batch.values = take_values(b, plan->size.batch_bytes * capacity);
  exec->batch.losses = take(b, &b->by.activations, exec->settings.batch * (int64_t)sizeof *exec->batch.losses);
  exec->batch.targets = take(b, &b->by.activations, exec->settings.batch * exec->batch.target_bytes);
  exec->stages.work = take(b, &b->by.bookkeeping, exec->exchange.count * (int64_t)sizeof *exec->stages.work);
  exec->result.bad_param = take(b, &b->by.bookkeeping, exec->exchange.count * (int64_t)sizeof *exec->result.bad_param);
  exec->norm.of_chunk = take(b, &b->by.bookkeeping, plan->chunk_count * (int64_t)sizeof *exec->norm.of_chunk);
  const int64_t squares = plan->muon.matrix_count > 0 ? plan->chunk_count * (int64_t)sizeof(double) : 0;
  exec->muon.direction_squares = take(b, &b->by.bookkeeping, squares);
  exec->muon.weight_squares = take(b, &b->by.bookkeeping, squares);
  exec->muon.matrices = take(b, &b->by.gradients, plan->muon.matrix_elems * (int64_t)sizeof *exec->muon.matrices);
  exec->norm.grad = take(b, &b->by.gradients, exec->settings.clip_norm > 0 ? plan->size.trained_elems * 4 : 0);
  exec->micro_batch_sum = take(b, &b->by.gradients, hd__tree_levels(micro_batches) * plan->size.grad_elems * 4);
  lay_out_exchange(exec, b);
  for (int l = 0; l < exec->exchange.count; l++) {
    const int32_t *border = hd__exec_border(exec, exec->thread[l].stage) + l;
    const bool is_here = hd__exec_has_stage(exec, exec->thread[l].stage);
    const int64_t slots = is_here ? hd__tree_most_sums(border[0], border[1]) : 0;
    take(b, &b->by.bookkeeping, -b->used & (PAGE_BYTES - 1));
    exec->thread[l].partial_sums = take(b, &b->by.gradients, slots * plan->size.direct_elems * (int64_t)sizeof(float));
  }
}

/* NULL: only counts. */
static void take_sums(hd_partial_sums *to, bump *b, int ranges, int begin, int end) {
  hd_partial_sums sums = {.ranges = ranges, .begin = begin, .end = end};
  sums.first = take(b, &b->by.bookkeeping, (ranges + 1) * (int64_t)sizeof *sums.first);
  sums.row = take(b, &b->by.bookkeeping, (ranges + 1) * (int64_t)sizeof *sums.row);
  sums.range = take(b, &b->by.bookkeeping, (end - begin) * (int64_t)sizeof *sums.range);
  if (to)
    *to = sums;
}

static stage_layout *take_stages(const hd_exec_cpu *exec, bump *b) {
  const hd_exchange *x = &exec->exchange;
  const int stages = exec->plan->pipeline.stages.count;
  stage_layout *stage = take(b, &b->by.bookkeeping, stages * (int64_t)sizeof *stage);
  for (int s = 0; s < stages; s++) {
    take_sums(stage ? &stage[s].sums : NULL, b, x->count, x->first, x->first + x->here);
    hd_reduction *sums =
        hd__exec_shares_samples(exec) ? take(b, &b->by.bookkeeping, HD_MAX_SUBTREES * (int64_t)sizeof *sums) : NULL;
    if (stage)
      stage[s].host_sums = sums;
  }
  return stage;
}

static void lay_out_process(hd_exec_cpu *exec, bump *b) {
  int micro_batches = exec->settings.micro_batches;
  for (int slot = 0; slot < 2; slot++) {
    exec->slots.layout[slot] = take(b, &b->by.bookkeeping, micro_batches * (int64_t)sizeof *exec->slots.layout[slot]);
    for (int p = 0; p < micro_batches; p++) {
      micro_batch_layout *layout = b->base ? &exec->slots.layout[slot][p] : NULL;
      stage_layout *stage = take_stages(exec, b);
      if (layout)
        layout->stage = stage;
      if (!hd__exec_shares_samples(exec))
        continue;
      host_layout *hosts = take(b, &b->by.bookkeeping, sizeof *hosts);
      take_sums(hosts ? &hosts->sums : NULL, b, exec->exchange.hosts, exec->exchange.host, exec->exchange.host + 1);
      if (layout)
        layout->hosts = hosts;
    }
  }
  for (int l = 0; l < exec->exchange.here; l++)
    lay_out_thread(exec, b, exec->exchange.first + l);
}

/* Of a call that reads large weights, as they are or packed: how many floats, and the products that use them for a
 * sample. A packed copy that is k times as large as the weights is of Winograd's tiles, which need k times fewer. */
static int64_t large_weights(double *products, const hd_plan_call *call) {
  const int64_t elems = call->in[1].where == HD_AT_PARAM ? call->in[1].elems : 0;
  const int64_t read = elems > 0 && call->packed.elems > elems ? call->packed.elems : elems;
  const double larger = elems > 0 ? (double)read / (double)elems : 1;
  *products = (double)call->flops / 2 / larger;
  return read > CACHED_WEIGHTS ? read : 0;
}

/* The number of samples in a group from which each of the weights of some calls is used often enough. */
static int64_t rows_for_weights(const hd_plan *plan, int call0, int call1) {
  int64_t rows = 1;
  for (const hd_plan_call *call = plan->calls + call0; call < plan->calls + call1; call++) {
    double products;
    if (call->in_turn && rows < ROWS_IN_TURN)
      rows = ROWS_IN_TURN;
    const double wanted = WANTED_PRODUCTS * (double)large_weights(&products, call);
    if ((double)rows * products < wanted)
      rows = (int64_t)(wanted / (products > 1 ? products : 1));
  }
  return rows;
}

/* The number from which all of them together are used often enough, at most `most`: what some calls lack does not
 * matter beside the products of all. */
static int64_t rows_for_all_weights(const hd_plan *plan, int call0, int call1, int64_t most) {
  int64_t rows = 0;
  double lacking, all;
  do {
    rows++;
    lacking = all = 0;
    for (const hd_plan_call *call = plan->calls + call0; call < plan->calls + call1; call++) {
      double products;
      const double wanted = WANTED_PRODUCTS * (double)large_weights(&products, call);
      const double lacks = wanted - (double)rows * products;
      lacking += lacks > 0 ? lacks : 0;
      all += (double)rows * products;
    }
  } while (rows < most && WAITING_SHARE * lacking > all);
  return rows;
}

/* Shards pass from stage to stage one by one, or several together if large weights are read for each: in at least twice
 * as many units as there are stages, so that the stages work at the same time. */
static int32_t unit_of_stages(const hd_exec_cpu *exec, int64_t largest) {
  const int32_t shards = exec->settings.shards / exec->settings.micro_batches;
  const int64_t wanted = rows_for_weights(exec->plan, 0, exec->plan->call_count);
  int32_t unit = 1;
  while (unit * largest < wanted && shards / (2 * unit) >= 2 * exec->plan->pipeline.stages.count)
    unit *= 2;
  return unit;
}

/* Bytes that a sample has in batch memory for some calls. */
static int64_t batch_bytes(const hd_plan *plan, int call0, int call1) {
  int64_t bytes = 0, last = -1;
  for (const hd_plan_call *call = plan->calls + call0; call < plan->calls + call1; call++)
    for (int i = 0; i < HD_MAX_IN + HD_MAX_OUT; i++) {
      const hd_place *place = i < HD_MAX_IN ? &call->in[i] : &call->out[i - HD_MAX_IN];
      if (place->where == HD_AT_BATCH && place->offset != last)
        bytes += place->row_bytes;
      last = place->where == HD_AT_BATCH ? place->offset : last;
    }
  return bytes;
}

/* Samples of a group for some calls that need `arena` bytes a sample, if a thread has `rows` of them. `beside`: bytes
 * of a sample that should be in the cache too. */
static int64_t wanted_rows(const hd_plan *plan, const int call[2], int64_t arena, int64_t beside, int64_t largest,
                           int64_t rows) {
  int64_t wanted = rows_for_weights(plan, call[0], call[1]);
  if (wanted * arena > ARENA_MOST_BYTES)
    wanted = rows_for_all_weights(plan, call[0], call[1], wanted);
  const int64_t fitting = arena + beside > 0 ? ARENA_TARGET_BYTES / (arena + beside) : rows;
  wanted = wanted > largest ? wanted : largest;
  wanted = wanted > fitting ? wanted : fitting;
  return rows < wanted ? rows : wanted;
}

static void choose_phase_rows(hd_exec_cpu *exec, int64_t largest, int64_t rows) {
  const hd_plan *plan = exec->plan;
  const int all[2] = {0, plan->call_count};
  int64_t *group = &exec->division.group_rows;
  const bool varies = has_phase_rows(plan);
  *group = varies                            ? 0
           : plan->pipeline.stages.count > 1 ? exec->stages.unit * largest
                                             : wanted_rows(plan, all, plan->size.arena_bytes, 0, largest, rows);
  for (int p = 0; p < plan->segments; p++) {
    const hd_phase *phase = &plan->phases[p];
    const int call[2] = {phase->call0, phase->call1};
    const int64_t beside = plan->segments > 1 ? batch_bytes(plan, call[0], call[1]) : 0;
    exec->division.phase_rows[p] =
        varies ? wanted_rows(plan, call, phase_arena_bytes(plan, phase), beside, largest, rows) : *group;
  }
  for (int p = 0; p < plan->segments; p++)
    *group = *group > exec->division.phase_rows[p] ? *group : exec->division.phase_rows[p];
}

static void choose_group_rows(hd_exec_cpu *exec) {
  int64_t largest = (exec->settings.batch + exec->settings.shards - 1) / exec->settings.shards;
  int64_t rows = 1;
  exec->stages.unit = unit_of_stages(exec, largest);
  for (int l = 0; l < exec->exchange.count; l++)
    if (rows < (exec->division.border[l + 1] - exec->division.border[l]) * largest)
      rows = (exec->division.border[l + 1] - exec->division.border[l]) * largest;
  if (!exec->plan->trains && exec->plan->pipeline.stages.count == 1)
    largest = 1; /* nothing is summed over shards */
  choose_phase_rows(exec, largest, rows);
}

static void distribute_shards(hd_exec_cpu *exec) {
  exec->batch.target_bytes = exec->plan->io.label.row_bytes;
  if (exec->plan->gathers)
    exec->settings.micro_batches = 1; /* the whole batch goes through a phase together */
  hd__exec_divide_shards(exec);
  choose_group_rows(exec);
}

/* The chunks of a stage's parameters are owned by its threads; every host with the stage has all of them. */
static void distribute_chunks_of(hd_exec_cpu *exec, const int64_t *weight, int stage) {
  const hd_plan *plan = exec->plan;
  int32_t lo = 0, hi;
  int begin, end;
  while (lo < plan->chunk_count && plan->params[plan->chunks[lo].param].stage < stage)
    lo++;
  for (hi = lo; hi < plan->chunk_count && plan->params[plan->chunks[hi].param].stage == stage;)
    hi++;
  hd__exec_threads_of_stage(&begin, &end, exec, exec->exchange.host, stage);
  const hd_thread_speeds speeds = {exec->division.speed ? exec->division.speed + begin : NULL, end - begin};
  for (int l = begin; l < end; l++) {
    thread_state *thread = &exec->thread[l];
    hd__tree_split(&thread->chunk_lo, &thread->chunk_hi, weight + lo, hi - lo, speeds, l - begin);
    thread->chunk_lo += lo;
    thread->chunk_hi += lo;
  }
}

static hd_status distribute_chunks(hd_exec_cpu *exec, hd_ctx *ctx) {
  const hd_plan *plan = exec->plan;
  int64_t *weight = hd__malloc((size_t)plan->chunk_count * sizeof *weight + 1);
  HD_TRY(HD_ALLOCATED(weight, ctx, "out of memory while assigning chunks"));
  for (int c = 0; c < plan->chunk_count; c++)
    weight[c] = plan->chunks[c].weight;
  for (int s = 0; s < plan->pipeline.stages.count; s++)
    distribute_chunks_of(exec, weight, s);
  hd__free(weight);
  return HD_OK;
}

static hd_status take_threads(hd_exec_cpu *exec, hd_ctx *ctx) {
  size_t threads = (size_t)exec->exchange.count, stages = (size_t)exec->plan->pipeline.stages.count;
  exec->thread = hd__malloc_aligned(threads * sizeof *exec->thread);
  exec->division.border =
      hd__malloc((stages * (threads + 1) + (size_t)exec->exchange.hosts + 1) * sizeof *exec->division.border);
  HD_TRY(
      HD_ALLOCATED(exec->thread && exec->division.border, ctx, "out of memory for %d threads", exec->exchange.count));
  HD_TRY(HD_NEW(exec->division.phase_rows, exec->plan->segments, ctx, "out of memory for the phases"));
  memset(exec->thread, 0, threads * sizeof *exec->thread);
  return hd__exec_number_stages(exec, ctx);
}

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
  bump common = {0}, process = {0};
  hd_status status = take_threads(&exec, ctx);
  if (status == HD_OK) {
    distribute_shards(&exec);
    lay_out_common(&exec, &common);
    lay_out_process(&exec, &process);
    *out = (hd_exec_memory){.activations = common.by.activations + process.by.activations,
                            .fetch = common.by.fetch + process.by.fetch,
                            .gradients = common.by.gradients + process.by.gradients,
                            .bookkeeping = common.by.bookkeeping + process.by.bookkeeping};
    for (int l = 0; l < threads; l++) {
      const int stage = exec.thread[l].stage;
      out->stage_threads[stage]++;
      out->stage_arenas[stage] += arena_bytes(&exec, l);
    }
    out->mapped = (int64_t)(hd__segment_bytes((size_t)common.used) + hd__segment_bytes((size_t)process.used));
  }
  hd__free(exec.thread);
  hd__free(exec.division.border);
  hd__free(exec.division.phase_rows);
  return status;
}

/* A page is allocated on the NUMA node of the thread that first touches it. With several nodes, per-thread memory is
 * also bound to the thread's node, and chunk owners touch the weights before other threads fill them. Batch memory
 * and arenas are first touched by the threads whose rows they hold, in the first step. */
static void touch_chunks(void *arg, int local_index) {
  const hd_exec_cpu *exec = arg;
  const hd_plan *plan = exec->plan;
  const int index = exec->exchange.first + local_index;
  for (int32_t c = exec->thread[index].chunk_lo; c < exec->thread[index].chunk_hi; c++) {
    const hd_chunk *chunk = &plan->chunks[c];
    const hd_plan_param *param = &plan->params[chunk->param];
    hd__store_touch(exec->store, param->offset + chunk->j0 * param->columns, (chunk->j1 - chunk->j0) * param->columns,
                    param->trained);
  }
}

static hd_status place_memory(hd_exec_cpu *exec, hd_ctx *ctx) {
  char *from[HD_MAX_THREADS + 1];
  if (!hd__threads_span_nodes(exec->threads))
    return HD_OK;
  for (int l = 0; l < exec->exchange.here; l++)
    from[l] = exec->thread[exec->exchange.first + l].arena;
  from[exec->exchange.here] = (char *)exec->local.base + exec->local.bytes;
  hd__threads_bind_memory(exec->threads, from);
  for (int l = 0; l <= exec->exchange.here; l++)
    from[l] = exec->exchange.first + l < exec->exchange.count
                  ? (char *)exec->thread[exec->exchange.first + l].partial_sums
                  : (char *)exec->common.base + exec->common.bytes;
  hd__threads_bind_memory(exec->threads, from);
  return hd__threads_run(exec->threads, ctx, touch_chunks, exec);
}

static hd_status take_memory(hd_exec_cpu *exec, hd_ctx *ctx) {
  bump process = {0}, common = {0};
  lay_out_common(exec, &common);
  lay_out_process(exec, &process);
  HD_TRY(
      hd__local_group_memory(&exec->common, exec->settings.local, ctx, (size_t)common.used, "batches and gradients"));
  HD_TRY(hd__segment_create(&exec->local, ctx, (size_t)process.used, "activations"));
  lay_out_common(exec, &(bump){.base = exec->common.base});
  lay_out_process(exec, &(bump){.base = exec->local.base});
  return HD_OK;
}

/* Behind a value of a guarded plan: in the arenas of its stage's threads, or in batch memory. */
static void guard_value(const hd_exec_cpu *exec, const hd_place *place, int stage) {
  const int64_t end = place->offset + place->row_bytes, rows = exec->division.group_rows, all = exec->batch.capacity;
  const int64_t arena = exec->plan->size.stage_arena_bytes[stage] * rows;
  if (place->where == HD_AT_BATCH)
    hd__segment_guard((char *)exec->batch.values + end * all, (size_t)(HD_GUARD_BYTES * all));
  for (int l = exec->exchange.first; l < exec->exchange.first + exec->exchange.here; l++)
    for (int a = 0; place->where == HD_AT_ARENA && exec->thread[l].stage == stage && a < exec->thread[l].arenas; a++)
      hd__segment_guard((char *)exec->thread[l].arena + a * arena + end * rows, (size_t)(HD_GUARD_BYTES * rows));
}

static void guard_values(const hd_exec_cpu *exec) {
  const hd_plan *plan = exec->plan;
  if (!plan->guarded)
    return;
  guard_value(exec, &plan->io.input, 0);
  for (const hd_plan_call *call = plan->calls; call < plan->calls + plan->call_count; call++)
    for (int o = 0; o < HD_MAX_OUT; o++)
      guard_value(exec, &call->out[o], call->stage);
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
  HD_TRY(take_threads(exec, ctx));
  distribute_shards(exec);
  HD_TRY(distribute_chunks(exec, ctx));
  if (hd__exec_shares_samples(exec))
    HD_TRY(hd__exec_choose_owners(exec, ctx));
  HD_TRY(take_memory(exec, ctx));
  HD_TRY(place_memory(exec, ctx));
  guard_values(exec);
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
