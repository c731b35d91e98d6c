/* Lays the shards of each micro-batch out over threads and hosts: ranges, their subtrees, and the reductions over them.
 *
 * The layout is made for the full batch and again only when the number of samples changes (the last batch of an
 * epoch). */
#include "exec/cpu/cpu_executor_state.h"

static void lay_out_hosts(const hd_exec_cpu *exec, host_layout *hosts, const micro_batch_layout *layout) {
  const int32_t first = layout->sums.first[exec->exchange.host_first[exec->exchange.host]];
  const int32_t end = layout->sums.first[exec->exchange.host_first[exec->exchange.host + 1]];
  hd_reduction reduction;
  hd__tree_lay_out(&hosts->sums, &layout->micro_batch, exec->host_border);
  hd__tree_split_reduction(hosts->shards, &hosts->sums.range->pushes);
  hd__tree_reduce(&reduction, &layout->micro_batch, layout->sums.subtree + first, end - first);
  for (int32_t i = 0; i < reduction.count; i++)
    reduction.step[i].term += first;
  hd__tree_split_reduction(hosts->threads, &reduction);
}

static void lay_out_micro_batch(const hd_exec_cpu *exec, micro_batch_layout *layout) {
  const hd_micro_batch *micro_batch = &layout->micro_batch;
  layout->first = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, micro_batch->lo);
  hd__tree_lay_out(&layout->sums, micro_batch, exec->border);
  for (int l = 0; l < exec->exchange.count; l++)
    for (int32_t p = layout->sums.first[l]; p < layout->sums.first[l + 1]; p++)
      layout->sum[p] = exec->thread[l].partial_sums + (p - layout->sums.first[l]) * exec->plan->direct_elems;
  if (layout->hosts)
    lay_out_hosts(exec, layout->hosts, layout);
  hd_range_plan whole;
  hd__tree_range(&whole, micro_batch, micro_batch->lo, micro_batch->hi);
  layout->shards = whole.pushes;
}

bool hd__exec_cpu_fetches(const void *self, int64_t samples, int64_t first, int64_t rows) {
  const hd_exec_cpu *exec = self;
  const int32_t *border = exec->border + exec->exchange.first;
  return hd__tree_holds(samples, exec->settings.shards, exec->settings.micro_batches, border[0],
                        border[exec->exchange.here], first, rows);
}

void hd__exec_layout(hd_exec_cpu *exec, int slot, int64_t samples) {
  if (exec->layout[slot][0].samples == samples)
    return;
  hd_subtree pending[HD_MAX_SUBTREES];
  int32_t depth = 0;
  for (int p = 0; p < exec->settings.micro_batches; p++) {
    micro_batch_layout *layout = &exec->layout[slot][p];
    layout->samples = samples;
    layout->micro_batch = hd__tree_micro_batch(samples, exec->settings.shards, exec->settings.micro_batches, p);
    lay_out_micro_batch(exec, layout);
    if (layout->shards.count == 0)
      continue;
    layout->merges = hd__tree_push_micro_batch(pending, &depth, &layout->micro_batch, exec->settings.micro_batches, p);
    layout->level = depth - 1;
  }
}
