/* Sums over the whole batch inside a step: statistics along the tree, sums that later phases read, running statistics.
 *
 * Statistics are a mean and a sum of squared deviations per channel, two outputs of one node. Two neighbouring
 * ranges of samples combine by Chan's formula, in the order of the tree, like every other sum. After a barrier each
 * thread reduces these small partial sums of all threads for itself: all get the same bits, and no second barrier is
 * needed. */
#include <string.h>

#include "exec/cpu/cpu_executor_state.h"

static int64_t pixels_of(const hd_plan_call *call) { return (int64_t)call->geom->hi * call->geom->wi; }

void hd__exec_merge_stats(const hd_plan *plan, const hd_plan_call *call, float *stack, const int64_t *rows, int top) {
  float *left = stack + top * plan->direct_elems, *right = left + plan->direct_elems;
  const int64_t mean = call->out[0].offset, m2 = call->out[1].offset;
  const hd_chan chan = hd__chan(rows[top] * pixels_of(call), rows[top + 1] * pixels_of(call));
  plan->kernels->merge_stats(left + mean, left + m2, right + mean, right + m2, call->geom->ci, chan.share, chan.both);
}

static void copy_output(const hd_place *out, float *to, const float *from) {
  memcpy(to + out->offset, from + out->offset, (size_t)out->elems * sizeof *to);
}

/* The batch's mean and variance. */
static void gather_stats(const thread_at *at, const hd_plan_call *call) {
  const hd_plan *plan = at->exec->plan;
  int64_t rows[HD_MAX_REDUCTION_DEPTH];
  for (hd_walk w = hd__reduction_walk(&at->layout->sums.reduction); hd__walk_push(&w);) {
    for (int o = 0; o < 2; o++)
      copy_output(&call->out[o], at->thread->stack + w.top * plan->direct_elems, at->layout->sum[w.step->term]);
    for (rows[w.top] = w.step->row1 - w.step->row0; hd__walk_merge(&w); rows[w.top] += rows[w.top + 1])
      hd__exec_merge_stats(plan, call, at->thread->stack, rows, w.top);
  }
  float *var = at->thread->gathered + call->out[1].offset;
  float count = (float)(at->step->samples * pixels_of(call));
  for (int o = 0; o < 2; o++)
    copy_output(&call->out[o], at->thread->gathered, at->thread->stack);
  for (int c = 0; c < call->geom->ci; c++)
    var[c] = var[c] / count;
}

static void gather_sums(const thread_at *at, const hd_plan_call *call) {
  const hd_reduction *reduction = &at->layout->sums.reduction;
  const float *term[HD_MAX_SHARDS];
  for (const hd_place *out = call->out; out < call->out + HD_MAX_OUT; out++) {
    if (out->where == HD_AT_NOWHERE)
      continue;
    for (int32_t p = 0; p < reduction->count; p++)
      term[p] = at->layout->sum[p] + out->offset;
    at->exec->plan->kernels->reduce(at->thread->gathered + out->offset, term, reduction, out->elems);
  }
}

void hd__exec_gather(const thread_at *at, const hd_phase *phase) {
  const hd_plan *plan = at->exec->plan;
  for (int i = phase->call0; i < phase->call1; i++) {
    if (!plan->calls[i].gathered)
      continue;
    if (plan->calls[i].class == HD_CLASS_STATS)
      gather_stats(at, &plan->calls[i]);
    else
      gather_sums(at, &plan->calls[i]);
  }
  hd__trace_leaf(at->thread->track, HD_SLICE_GATHER, 0);
}

/* As in PyTorch, the running variance follows the unbiased one. A single sample of one pixel has none; its variance is
 * used as it is. */
void hd__exec_running(const thread_at *at, int param, int32_t j0, int32_t j1) {
  const hd_exec_cpu *exec = at->exec;
  const hd_plan_running *is = &exec->plan->params[param].running;
  int64_t first = exec->plan->params[param].offset, count = at->step->samples * is->pixels;
  const float *batch = at->thread->gathered + is->batch;
  const float *old = exec->store->weights[at->buffer] + first;
  float *new = exec->store->weights[1 - at->buffer] + first;
  float unbias = is->unbias && count > 1 ? (float)((double)count / (double)(count - 1)) : 1;
  for (int32_t c = j0; c < j1; c++)
    new[c] = __builtin_fmaf(is->momentum, batch[c] * unbias - old[c], old[c]);
  hd__trace_leaf(at->thread->track, HD_SLICE_UPDATE, param);
}
