/* Lays the shards of each micro-batch out over threads and hosts: ranges, their subtrees, and the reductions over them.
 *
 * The layout is made for the full batch and again only when the number of samples changes (the last batch of an
 * epoch). */
#include "exec/cpu/cpu_executor_state.h"

static void lay_out_hosts(hd_exec_cpu *exec, micro_batch_layout *layout, host_layout *hosts,
                          const hd_subtree *thread_subtree) {
  const hd_micro_batch *micro_batch = &layout->micro_batch;
  hd_subtree subtree[HD_MAX_SHARDS];
  int32_t subtrees = 0, thread_sums = 0;
  for (int h = 0; h < exec->hosts; h++) {
    hd_range_plan range;
    hd__tree_range(&range, micro_batch, micro_batch->lo + exec->border[exec->host_thread[h]],
                   micro_batch->lo + exec->border[exec->host_thread[h + 1]]);
    hosts->first_sum[h] = subtrees;
    hosts->first_thread_sum[h] = thread_sums;
    for (int32_t c = 0; c < range.subtree_count; c++)
      subtree[subtrees++] = range.subtree[c];
    for (int l = exec->host_thread[h]; l < exec->host_thread[h + 1]; l++)
      thread_sums += layout->range[l].subtree_count;
    if (h == exec->host)
      hd__tree_split_reduction(hosts->shards, &range.pushes);
  }
  hosts->first_sum[exec->hosts] = subtrees;
  hosts->first_thread_sum[exec->hosts] = thread_sums;
  hd__tree_reduce(&hosts->over_hosts, micro_batch, subtree, subtrees);
  hd_reduction reduction;
  const int32_t first = hosts->first_thread_sum[exec->host];
  hd__tree_reduce(&reduction, micro_batch, thread_subtree + first, hosts->first_thread_sum[exec->host + 1] - first);
  for (int32_t i = 0; i < reduction.count; i++)
    reduction.step[i].term += first;
  hd__tree_split_reduction(hosts->threads, &reduction);
}

static void lay_out_micro_batch(hd_exec_cpu *exec, micro_batch_layout *layout) {
  const hd_micro_batch *micro_batch = &layout->micro_batch;
  hd_subtree subtree[HD_MAX_SHARDS];
  int32_t subtrees = 0;
  layout->first = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, micro_batch->lo);
  for (int l = 0; l < exec->thread_count; l++) {
    hd_range_plan *range = &layout->range[l];
    hd__tree_range(range, micro_batch, micro_batch->lo + exec->border[l], micro_batch->lo + exec->border[l + 1]);
    for (int32_t c = 0; c < range->subtree_count; c++, subtrees++) {
      subtree[subtrees] = range->subtree[c];
      layout->sum_thread[subtrees] = l;
      layout->sum_slot[subtrees] = c;
      layout->sum_rows[subtrees] =
          hd__tree_first_sample(micro_batch->samples, micro_batch->shards,
                                subtree[subtrees].start + subtree[subtrees].size) -
          hd__tree_first_sample(micro_batch->samples, micro_batch->shards, subtree[subtrees].start);
    }
  }
  hd__tree_reduce(&layout->over_threads, micro_batch, subtree, subtrees);
  if (layout->hosts)
    lay_out_hosts(exec, layout, layout->hosts, subtree);
  hd_range_plan whole;
  hd__tree_range(&whole, micro_batch, micro_batch->lo, micro_batch->hi);
  layout->shards = whole.pushes;
}

void hd__exec_host_rows(int64_t *row0, int64_t *row1, const hd_exec_cpu *exec, const hd_micro_batch *micro_batch,
                        int host) {
  const int64_t first = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, micro_batch->lo);
  const int32_t lo = micro_batch->lo + exec->border[exec->host_thread[host]],
                hi = micro_batch->lo + exec->border[exec->host_thread[host + 1]];
  *row0 = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, lo) - first;
  *row1 = hd__tree_first_sample(micro_batch->samples, micro_batch->shards, hi) - first;
}

bool hd__exec_cpu_fetches(const void *self, int64_t samples, int64_t first, int64_t rows) {
  const hd_exec_cpu *exec = self;
  for (int p = 0; p < exec->settings.micro_batches; p++) {
    const hd_micro_batch micro_batch =
        hd__tree_micro_batch(samples, exec->settings.shards, exec->settings.micro_batches, p);
    const int64_t lo = micro_batch.lo + exec->border[exec->first_thread];
    const int64_t hi = micro_batch.lo + exec->border[exec->first_thread + exec->process_threads];
    const int64_t begin = hd__tree_first_sample(micro_batch.samples, micro_batch.shards, lo);
    const int64_t end = hd__tree_first_sample(micro_batch.samples, micro_batch.shards, hi);
    if (first < end && begin < first + rows)
      return true;
  }
  return false;
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
