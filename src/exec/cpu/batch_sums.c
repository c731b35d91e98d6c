/* Sums over the whole batch inside a step: statistics along the tree, sums that later phases read, running
 * statistics.
 *
 * Statistics are a mean and a sum of squared deviations per channel, two outputs of one node. Two neighbouring
 * ranges of samples combine by Chan's formula, in the order of the tree, like every other sum. After a barrier each
 * thread of their stage reduces these small partial sums of all its threads for itself: all get the same bits, and
 * no second barrier is needed. */
#include <string.h>

#include "exec/cpu/cpu_executor_state.h"

static int64_t pixels_of(const hd_plan_call *call) { return (int64_t)call->geom->hi * call->geom->wi; }

void hd__exec_merge_stats(const hd_plan *plan, const hd_plan_call *call, float *left, float *right, const int64_t *at,
                          const int64_t *rows) {
  const hd_chan chan = hd__chan(rows[0] * pixels_of(call), rows[1] * pixels_of(call));
  plan->kernels->merge_stats((hd_stats){left + at[0], left + at[1]}, (hd_stats){right + at[0], right + at[1]},
                             call->geom->ci, chan);
}

static void copy(float *to, const float *from, int64_t elems) { memcpy(to, from, (size_t)elems * sizeof *to); }

/* The batch's mean and variance. */
static void gather_stats(const thread_at *at, const hd_plan_call *call) {
  const hd_plan *plan = at->exec->plan;
  const int64_t slot = plan->size.gathered_elems, place[2] = {call->out[0].gathered, call->out[1].gathered};
  float *stack = at->thread->stack, *sum = at->thread->gathered;
  int64_t rows[HD_MAX_REDUCTION_DEPTH];
  const stage_layout *stage = &at->layout->stage[call->stage];
  for (hd_walk w = hd__reduction_walk(&stage->sums.reduction); hd__walk_push(&w);) {
    float *top = stack + w.top * slot;
    for (int o = 0; o < 2; o++)
      copy(top + place[o], stage->sum[w.step->term] + call->out[o].offset, call->out[o].elems);
    for (rows[w.top] = w.step->row1 - w.step->row0; hd__walk_merge(&w); rows[w.top] += rows[w.top + 1], top -= slot)
      hd__exec_merge_stats(plan, call, top - slot, top, place, rows + w.top);
  }
  for (int o = 0; o < 2; o++)
    copy(sum + place[o], stack + place[o], call->out[o].elems);
  const float count = (float)(at->step->samples * pixels_of(call));
  for (int c = 0; c < call->geom->ci; c++)
    sum[place[1] + c] = sum[place[1] + c] / count;
}

static void gather_sums(const thread_at *at, const hd_plan_call *call) {
  const stage_layout *stage = &at->layout->stage[call->stage];
  const hd_reduction *reduction = &stage->sums.reduction;
  const float *term[HD_MAX_SHARDS];
  for (const hd_place *out = call->out; out < call->out + HD_MAX_OUT; out++) {
    if (out->where == HD_AT_NOWHERE)
      continue;
    for (int32_t p = 0; p < reduction->count; p++)
      term[p] = stage->sum[p] + out->offset;
    at->exec->plan->kernels->reduce(at->thread->gathered + out->gathered, term, reduction, out->elems);
  }
}

void hd__exec_gather(const thread_at *at, const hd_phase *phase) {
  const hd_plan *plan = at->exec->plan;
  for (int i = phase->call0; i < phase->call1; i++) {
    const hd_plan_call *call = &plan->calls[i];
    if (!call->gathered || call->stage != at->thread->stage || !hd__exec_needs(at, call))
      continue;
    if (call->class == HD_CLASS_STATS)
      gather_stats(at, call);
    else
      gather_sums(at, call);
  }
  hd__trace_leaf(at->thread->track, HD_SLICE_GATHER, 0);
}

/* As in PyTorch, the running variance follows the unbiased one. A single sample of one pixel has none; its variance is
 * used as it is. */
void hd__exec_running(const thread_at *at, int param, int32_t j0, int32_t j1) {
  const hd_exec_cpu *exec = at->exec;
  const hd_plan_param *way = &exec->plan->params[param];
  const hd_plan_running *is = &way->running;
  const int64_t first = way->offset, lo = j0 * way->columns, hi = j1 * way->columns;
  const int64_t count = at->step->samples * is->pixels;
  const float *batch = at->thread->gathered + is->batch;
  const float *old = exec->store->weights[at->buffer] + first;
  float *new = exec->store->weights[1 - at->buffer] + first;
  float unbias = is->unbias && count > 1 ? (float)((double)count / (double)(count - 1)) : 1;
  for (int64_t c = lo; c < hi; c++)
    new[c] = __builtin_fmaf(is->momentum, batch[c] * unbias - old[c], old[c]);
  hd__exec_average(at, first + lo, hi - lo);
  hd__trace_leaf(at->thread->track, HD_SLICE_UPDATE, param);
}
