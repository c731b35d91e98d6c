/* Sums over the whole batch inside a step: statistics along the tree, sums that later phases read, running statistics.
 *
 * Statistics are a mean and a sum of squared deviations per channel, two outputs of one node. Two neighbouring
 * ranges of samples combine by Chan's formula, in the order of the tree, like every other sum. After a barrier each
 * thread reduces these small partial sums of all threads for itself: all get the same bits, and no second barrier is
 * needed. */
#include <string.h>

#include "exec/cpu/cpu_executor_state.h"
#include "op/op.h"

static int64_t pixels_of(const hd_node *node) { return (int64_t)node->geom.hi * node->geom.wi; }

/* left, right: slots of direct_elems floats; rows: the samples of each. */
static void merge(const hd_exec_cpu *exec, const hd_node *node, float *left, const float *right, int64_t rows_left,
                  int64_t rows_right) {
  const hd_plan *plan = exec->plan;
  int64_t mean = plan->place[node->out[0]].offset, m2 = plan->place[node->out[1]].offset;
  double n = (double)(rows_left * pixels_of(node)), more = (double)(rows_right * pixels_of(node));
  plan->kernels->merge_stats(left + mean, left + m2, right + mean, right + m2, node->geom.ci,
                             (float)(more / (n + more)), (float)(n * more / (n + more)));
}

void hd__exec_merge_stats(const thread_at *at, const hd_node *node, int depth) {
  float *left = at->thread->partial_sums + (depth - 2) * at->exec->plan->direct_elems;
  const int64_t *rows = at->thread->slot_rows + depth - 2;
  merge(at->exec, node, left, left + at->exec->plan->direct_elems, rows[0], rows[1]);
}

static const float *partial_sum(const thread_at *at, int32_t p) {
  return at->exec->thread[at->layout->sum_thread[p]].partial_sums +
         at->layout->sum_slot[p] * at->exec->plan->direct_elems;
}

static void copy_output(const thread_at *at, int value, float *to, const float *from) {
  const hd_plan *plan = at->exec->plan;
  int64_t offset = plan->place[value].offset, elems = hd__shape_elems(&plan->graph->values[value].shape);
  memcpy(to + offset, from + offset, (size_t)elems * sizeof *to);
}

/* The batch's mean and variance. */
static void gather_stats(const thread_at *at, const hd_node *node) {
  const hd_reduction *reduction = &at->layout->over_threads;
  int64_t slot = at->exec->plan->direct_elems, rows[HD_MAX_REDUCTION_DEPTH];
  int depth = 0;
  for (int s = 0; s < reduction->count; s++) {
    for (int o = 0; o < 2; o++)
      copy_output(at, node->out[o], at->thread->stack + depth * slot, partial_sum(at, reduction->step[s].term));
    rows[depth++] = at->layout->sum_rows[reduction->step[s].term];
    for (int m = 0; m < reduction->step[s].merges; m++, depth--) {
      float *left = at->thread->stack + (depth - 2) * slot;
      merge(at->exec, node, left, left + slot, rows[depth - 2], rows[depth - 1]);
      rows[depth - 2] += rows[depth - 1];
    }
  }
  float *var = at->thread->gathered + at->exec->plan->place[node->out[1]].offset;
  float count = (float)(at->step->samples * pixels_of(node));
  for (int o = 0; o < 2; o++)
    copy_output(at, node->out[o], at->thread->gathered, at->thread->stack);
  for (int c = 0; c < node->geom.ci; c++)
    var[c] = var[c] / count;
}

static void gather_sums(const thread_at *at, const hd_node *node) {
  const hd_plan *plan = at->exec->plan;
  const hd_reduction *reduction = &at->layout->over_threads;
  const float *term[HD_MAX_SHARDS];
  for (int o = 0; o < HD_MAX_OUT; o++) {
    if (node->out[o] < 0)
      continue;
    int64_t offset = plan->place[node->out[o]].offset;
    for (int32_t p = 0; p < reduction->count; p++)
      term[p] = partial_sum(at, p) + offset;
    plan->kernels->reduce(at->thread->gathered + offset, term, reduction,
                          hd__shape_elems(&plan->graph->values[node->out[o]].shape));
  }
}

void hd__exec_gather(const thread_at *at, const hd_phase *phase) {
  const hd_plan *plan = at->exec->plan;
  for (int i = phase->call0; i < phase->call1; i++) {
    const hd_node *node = &plan->graph->nodes[plan->calls[i].node];
    if (!plan->gathered[plan->calls[i].node])
      continue;
    if (hd__op_info(node->op)->class == HD_CLASS_STATS)
      gather_stats(at, node);
    else
      gather_sums(at, node);
  }
  hd__trace_leaf(at->thread->track, HD_SLICE_GATHER, 0);
}

/* As in PyTorch, the running variance follows the unbiased one. A single sample of one pixel has none; its variance is
 * used as it is. */
void hd__exec_running(const thread_at *at, int param, int32_t j0, int32_t j1) {
  const hd_exec_cpu *exec = at->exec;
  const hd_param *p = &exec->plan->graph->params[param];
  const hd_node *stats = &exec->plan->graph->nodes[exec->plan->graph->values[p->statistic].producer];
  int64_t first = exec->plan->params[param].offset, count = at->step->samples * pixels_of(stats);
  const float *batch = at->thread->gathered + exec->plan->place[p->statistic].offset;
  const float *old = exec->store->weights[at->buffer] + first;
  float *new = exec->store->weights[1 - at->buffer] + first;
  float unbias = p->statistic == stats->out[1] && count > 1 ? (float)((double)count / (double)(count - 1)) : 1;
  for (int32_t c = j0; c < j1; c++)
    new[c] = __builtin_fmaf(p->momentum, batch[c] * unbias - old[c], old[c]);
}
