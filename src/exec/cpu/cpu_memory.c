/* The executor's memory: that of all threads of a host, shared by its ranks, and that of a process's threads. It is
 * laid out twice by the same functions, to count and to place; no page of values has two threads. */

#include "exec/cpu/cpu_executor_state.h"

enum { PAGE_BYTES = 4096 };

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
  thread->arena = take_values(b, hd__exec_arena_bytes(exec, index)); /* no page has two threads */
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

hd_status hd__exec_take_memory(hd_exec_cpu *exec, hd_ctx *ctx) {
  bump process = {0}, common = {0};
  lay_out_common(exec, &common);
  lay_out_process(exec, &process);
  HD_TRY(
      hd__local_group_memory(&exec->common, exec->settings.local, ctx, (size_t)common.used, "batches and gradients"));
  HD_TRY(hd__segment_create(&exec->local, ctx, (size_t)process.used, "activations"));
  lay_out_common(exec, &(bump){.base = exec->common.base});
  lay_out_process(exec, &(bump){.base = exec->local.base});
  HD_TRY(place_memory(exec, ctx));
  guard_values(exec);
  return HD_OK;
}

hd_exec_memory hd__exec_count_memory(hd_exec_cpu *exec) {
  bump common = {0}, process = {0};
  lay_out_common(exec, &common);
  lay_out_process(exec, &process);
  return (hd_exec_memory){
      .activations = common.by.activations + process.by.activations,
      .fetch = common.by.fetch + process.by.fetch,
      .gradients = common.by.gradients + process.by.gradients,
      .bookkeeping = common.by.bookkeeping + process.by.bookkeeping,
      .mapped = (int64_t)(hd__segment_bytes((size_t)common.used) + hd__segment_bytes((size_t)process.used))};
}
