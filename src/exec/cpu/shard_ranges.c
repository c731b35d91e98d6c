/* Divides the shards of each micro-batch among hosts and the threads of each stage, and lays out their subtrees and
 * the reductions over them.
 *
 * Hosts have neighbouring ranges, in proportion to their threads. Either every host has threads of every stage, which
 * divide the host's range among them, so that values stay on a host from stage to stage. Or each stage has one host,
 * whose threads of that stage divide all shards.
 *
 * The layout is made for the full batch and again only when the number of samples changes (the last batch of an
 * epoch). */
#include "exec/cpu/cpu_executor_state.h"

/* The stages [*begin, *end) of a host. */
static void stages_of_host(int *begin, int *end, const hd_exec_cpu *exec, int host) {
  const int stages = exec->plan->pipeline.stages.count;
  *begin = exec->stages.apart ? stages : 0;
  *end = exec->stages.apart ? 0 : stages;
  for (int s = 0; s < stages && exec->stages.apart; s++)
    if (hd__exec_stage_host(exec, s) == host) {
      *begin = s < *begin ? s : *begin;
      *end = s + 1;
    }
}

/* Refuses a stage of a host whose threads all have speed 0. */
static hd_status check_speed(const hd_exec_cpu *exec, hd_ctx *ctx, int host, int stage) {
  int from, to, slow = 0;
  hd__exec_threads_of_stage(&from, &to, exec, host, stage);
  for (int l = from; l < to && exec->division.speed; l++)
    slow += exec->division.speed[l] == 0;
  if (slow == 0 || slow < to - from)
    return HD_OK;
  return hd__fail(ctx, HD_E_USAGE,
                  "HEDDLE_THREAD_SPEEDS: expected a speed above 0 for a thread of each stage, found 0 for all %d of "
                  "stage %d; raise one, or unset it",
                  slow, stage);
}

/* Threads of a host are divided evenly among its stages, neighbours together. */
hd_status hd__exec_number_stages(hd_exec_cpu *exec, hd_ctx *ctx) {
  const int hosts = exec->exchange.hosts;
  for (int h = 0; h < hosts; h++) {
    const int first = exec->exchange.host_first[h], threads = exec->exchange.host_first[h + 1] - first;
    int begin, end;
    stages_of_host(&begin, &end, exec, h);
    if (threads < end - begin)
      return hd__fail(
          ctx, HD_E_USAGE,
          "--stages expects at least one thread for each of the %d stages%s, found %d; use more --threads or "
          "--procs, or fewer stages%s",
          end - begin, hosts > 1 ? " on every host" : "", threads,
          hosts > 1 && !exec->stages.apart ? ", or --place-stages hosts" : "");
    for (int l = 0; l < threads; l++)
      exec->thread[first + l].stage = begin + l * (end - begin) / threads;
    for (int s = begin; s < end; s++)
      HD_TRY(check_speed(exec, ctx, h, s));
  }
  return HD_OK;
}

/* The threads of a host that run a stage: neighbours. */
void hd__exec_threads_of_stage(int *begin, int *end, const hd_exec_cpu *exec, int host, int stage) {
  const int last = exec->exchange.host_first[host + 1];
  *begin = exec->exchange.host_first[host];
  while (*begin < last && exec->thread[*begin].stage < stage)
    (*begin)++;
  for (*end = *begin; *end < last && exec->thread[*end].stage == stage;)
    (*end)++;
}

/* The shards [first, last), for threads with the borders [from, to]. */
typedef struct shards_to_divide {
  int32_t first, last;
  int from, to;
} shards_to_divide;

/* Divides them among the threads of a host that run a stage. The other threads get none. */
static void divide(const hd_exec_cpu *exec, int host, int stage, shards_to_divide r) {
  int32_t *border = hd__exec_border(exec, stage);
  int begin, end;
  hd__exec_threads_of_stage(&begin, &end, exec, host, stage);
  for (int l = r.from; l <= r.to; l++)
    border[l] = l <= begin ? r.first : r.last;
  hd__tree_distribute(border + begin, r.last - r.first, exec->division.speed ? exec->division.speed + begin : NULL,
                      end - begin);
  for (int l = begin; l <= end; l++)
    border[l] += r.first;
}

static void divide_stage(const hd_exec_cpu *exec, int stage, int32_t shards) {
  const hd_exchange *x = &exec->exchange;
  if (exec->stages.apart)
    divide(exec, hd__exec_stage_host(exec, stage), stage, (shards_to_divide){0, shards, 0, x->count});
  for (int h = 0; h < x->hosts && !exec->stages.apart; h++)
    divide(exec, h, stage,
           (shards_to_divide){exec->division.host_border[h], exec->division.host_border[h + 1], x->host_first[h],
                              x->host_first[h + 1]});
}

void hd__exec_divide_shards(hd_exec_cpu *exec) {
  const int32_t shards = exec->settings.shards / exec->settings.micro_batches;
  exec->division.host_border = hd__exec_border(exec, exec->plan->pipeline.stages.count);
  hd__tree_distribute(exec->division.border, shards, exec->division.speed, exec->exchange.count);
  for (int h = 0; h <= exec->exchange.hosts; h++)
    exec->division.host_border[h] = exec->division.border[exec->exchange.host_first[h]];
  for (int s = 0; s < exec->plan->pipeline.stages.count && exec->plan->pipeline.stages.count > 1; s++)
    divide_stage(exec, s, shards);
}

static void lay_out_hosts(const hd_exec_cpu *exec, host_layout *hosts, const micro_batch_layout *layout) {
  hd__tree_lay_out(&hosts->sums, &layout->micro_batch, exec->division.host_border);
  hd__tree_split_reduction(hosts->shards, &hosts->sums.range->pushes);
}

/* Over the partial sums of this host's threads. */
static void lay_out_host_sums(const hd_exec_cpu *exec, const stage_layout *stage, const hd_micro_batch *micro_batch) {
  const int32_t first = stage->sums.first[exec->exchange.host_first[exec->exchange.host]];
  const int32_t end = stage->sums.first[exec->exchange.host_first[exec->exchange.host + 1]];
  hd_reduction reduction;
  hd__tree_reduce(&reduction, micro_batch, stage->sums.subtree + first, end - first);
  for (int32_t i = 0; i < reduction.count; i++)
    reduction.step[i].term += first;
  hd__tree_split_reduction(stage->host_sums, &reduction);
}

static void lay_out_stage(const hd_exec_cpu *exec, stage_layout *stage, const hd_micro_batch *micro_batch, int index) {
  hd__tree_lay_out(&stage->sums, micro_batch, hd__exec_border(exec, index));
  for (int l = 0; l < exec->exchange.count; l++)
    for (int32_t p = stage->sums.first[l]; p < stage->sums.first[l + 1]; p++)
      stage->sum[p] = exec->thread[l].partial_sums + (p - stage->sums.first[l]) * exec->plan->size.direct_elems;
  if (stage->host_sums)
    lay_out_host_sums(exec, stage, micro_batch);
}

static void lay_out_micro_batch(const hd_exec_cpu *exec, micro_batch_layout *layout) {
  const hd_micro_batch *micro_batch = &layout->micro_batch;
  layout->first = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, micro_batch->lo);
  for (int s = 0; s < exec->plan->pipeline.stages.count; s++)
    lay_out_stage(exec, &layout->stage[s], micro_batch, s);
  if (layout->hosts)
    lay_out_hosts(exec, layout->hosts, layout);
  hd_range_plan whole;
  hd__tree_range(&whole, micro_batch, micro_batch->lo, micro_batch->hi);
  layout->shards = whole.pushes;
}

/* The first stage reads samples. */
bool hd__exec_cpu_fetches(const void *self, int64_t samples, int64_t first, int64_t rows) {
  const hd_exec_cpu *exec = self;
  const int32_t *border = hd__exec_border(exec, 0) + exec->exchange.first;
  return hd__tree_holds(samples, exec->settings.shards, exec->settings.micro_batches,
                        (hd_shard_range){border[0], border[exec->exchange.here]}, first, rows);
}

void hd__exec_layout(hd_exec_cpu *exec, int slot, int64_t samples) {
  if (exec->slots.layout[slot][0].samples == samples)
    return;
  hd_subtree pending[HD_MAX_SUBTREES];
  int32_t depth = 0;
  for (int p = 0; p < exec->settings.micro_batches; p++) {
    micro_batch_layout *layout = &exec->slots.layout[slot][p];
    layout->samples = samples;
    layout->micro_batch = hd__tree_micro_batch(samples, exec->settings.shards, exec->settings.micro_batches, p);
    lay_out_micro_batch(exec, layout);
    if (layout->shards.count == 0)
      continue;
    layout->merges = hd__tree_push_micro_batch(pending, &depth, &layout->micro_batch, exec->settings.micro_batches, p);
    layout->level = depth - 1;
  }
}
