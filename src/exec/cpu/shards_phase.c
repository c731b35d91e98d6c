/* A shards phase: a thread runs a segment of the network, in most plans the whole network, for its shards, group by
 * group, and sums their direct gradients and statistics.
 *
 * A group is as many neighbouring shards as the arena holds; ROWS calls handle a group at once, REDUCE calls stop at
 * each shard's border. Each shard's gradients are pushed on the thread's stack of partial sums and merged
 * in the order of the tree. */
#include <string.h>

#include "exec/cpu/cpu_executor_state.h"

void hd__exec_find_memory(const thread_at *at) {
  const hd_exec_cpu *exec = at->exec;
  const thread_state *thread = at->thread;
  const hd_exec_settings *is = &exec->settings;
  const int64_t floats = sizeof(float);
  const hd_origin origin[HD_WHERES] = {
      [HD_AT_ARENA] = {thread->arena, .scale = exec->division.group_rows},
      [HD_AT_BATCH] = {exec->batch.values, .scale = (is->batch + is->micro_batches - 1) / is->micro_batches},
      [HD_AT_LABELS] = {.base = exec->batch.targets},
      [HD_AT_LOSSES] = {.base = exec->batch.losses},
      [HD_AT_PARAM] = {exec->store->weights[at->buffer], .scale = floats},
      [HD_AT_PACKED] = {exec->store->packed, .scale = floats},
      [HD_AT_CONST] = {exec->plan->constants, .scale = floats},
      [HD_AT_DIRECT] = {thread->partial_sums, .scale = floats},
      [HD_AT_GATHERED] = {thread->gathered, .scale = floats}};
  memcpy(at->thread->origin, origin, sizeof origin);
}

/* Advances to the rows that begin `by` rows later. */
static void advance(call_rows *rows, int64_t by) {
  rows->batch_row += by;
  for (hd_where w = HD_AT_ARENA; w <= HD_AT_LOSSES; w++)
    rows->origin[w].row += by;
}

void hd__exec_fetch_group(const thread_at *at, const call_rows *group) {
  const hd_plan *plan = at->exec->plan;
  hd_slots to = {.x = hd__place_at(&plan->io.input, group->origin),
                 .x_stride = plan->io.input.stride,
                 .target = hd__place_at(&plan->io.label, group->origin),
                 .target_stride = plan->io.label.stride,
                 .outputs = plan->io.target_outputs,
                 .scratch = at->thread->fetch};
  to.weight = hd__weight_after(to.target, &plan->io);
  at->thread->flags |= hd__exec_fetch(at->exec->caller, at->step, group->batch_row, group->rows, &to);
}

void hd__exec_call(const thread_at *at, const hd_plan_call *planned, const call_rows *rows) {
  hd_call call = {.g = planned->geom,
                  .rows = rows->rows,
                  .packed = hd__place_at(&planned->packed, rows->origin),
                  .scratch = at->thread->scratch,
                  .divisor = at->step->divisor,
                  .batch_rows = at->step->samples,
                  .merges = rows->merges,
                  .slot = at->exec->plan->size.direct_elems};
  call.draw = (hd_draw){.seed = at->step->seed,
                        .epoch = at->step->epoch,
                        .position = (uint32_t)(at->step->cursor + rows->batch_row),
                        .node = planned->written};
  for (int i = 0; i < HD_MAX_IN; i++) {
    call.in[i] = hd__place_at(&planned->in[i], rows->origin);
    call.in_stride[i] = planned->in[i].stride;
  }
  for (int i = 0; i < HD_MAX_OUT; i++) {
    call.out[i] = hd__place_at(&planned->out[i], rows->origin);
    call.out_stride[i] = planned->out[i].stride;
  }
  if (planned->run_outputs)
    planned->run_outputs(&call, rows->j0, rows->j1);
  else
    planned->run(&call);
}

void hd__exec_note_outcome(const thread_at *at, const call_rows *group) {
  const hd_place *logits = &at->exec->plan->io.logits;
  const float *score = hd__place_at(logits, group->origin);
  const hd_plan_io *io = &at->exec->plan->io;
  const int32_t *label = hd__place_at(&io->label, group->origin);
  for (int64_t r = 0; r < group->rows; r++, score += logits->stride, label += io->label.stride)
    if (io->places > 0)
      hd__exec_write_places(at->exec->result.outcome, group->batch_row + r, score, io, label);
    else
      hd__exec_write_outcome(at->exec->result.outcome, group->batch_row + r, score, io);
}

static void merge_sums(const hd_plan *plan, const hd_plan_call *call, float *left, const float *right) {
  for (const hd_place *out = call->out; out < call->out + HD_MAX_OUT; out++)
    if (out->where == HD_AT_DIRECT)
      plan->kernels->array.binary[HD_BINARY_ADD][HD_F32](left + out->offset, left + out->offset, right + out->offset,
                                                         out->elems);
}

/* The samples of each partial sum on the thread's stack before the push `next`. */
static void count_rows(int64_t rows[HD_MAX_SUBTREES], const thread_at *at, const hd_reduction_step *next) {
  const hd_reduction *pushes = &hd__exec_range(at)->pushes;
  for (hd_walk w = hd__walk_steps(pushes->step, (int)(next - pushes->step), 0); hd__walk_push(&w);)
    for (rows[w.top] = w.step->row1 - w.step->row0; hd__walk_merge(&w);)
      rows[w.top] += rows[w.top + 1];
}

/* Runs one call for each shard of the group, whose pushes are the walk's; the result is in the slot of the push, or, of
 * a call that merges, in the slot that its additions end in. */
static void run_per_shard(const thread_at *at, const hd_plan_call *call, const call_rows *group, hd_walk w) {
  const hd_plan *plan = at->exec->plan;
  int64_t slot_rows[HD_MAX_SUBTREES];
  const int64_t place[2] = {call->out[0].offset, call->out[1].offset};
  call_rows rows = *group;
  if (call->class == HD_CLASS_STATS)
    count_rows(slot_rows, at, w.next);
  while (hd__walk_push(&w)) {
    float *slot = at->thread->partial_sums + w.top * plan->size.direct_elems;
    rows.rows = w.step->row1 - w.step->row0;
    rows.merges = call->merges ? w.merges : 0;
    rows.origin[HD_AT_DIRECT].base = slot - rows.merges * plan->size.direct_elems;
    hd__exec_call(at, call, &rows);
    advance(&rows, rows.rows);
    for (slot_rows[w.top] = rows.rows; hd__walk_merge(&w); slot_rows[w.top] += slot_rows[w.top + 1]) {
      float *right = slot;
      slot -= plan->size.direct_elems;
      if (call->class == HD_CLASS_STATS)
        hd__exec_merge_stats(plan, call, slot, right, place, slot_rows + w.top);
      else if (call->class == HD_CLASS_REDUCE && !call->merges) /* others are not summed */
        merge_sums(plan, call, slot, right);
    }
  }
}

void hd__exec_run_group(const thread_at *at, const hd_phase *phase, const hd_stage_range *range, const hd_walk *walk,
                        int32_t arena) {
  const hd_exec_cpu *exec = at->exec;
  const hd_plan *plan = exec->plan;
  const int32_t row0 = walk->step->row0, rows = walk->end[-1].row1 - row0;
  call_rows group = hd__exec_rows(at, rows, row0, at->layout->first + row0);
  hd_origin *origin = &group.origin[HD_AT_ARENA];
  origin->base = (char *)origin->base + arena * plan->size.stage_arena_bytes[range->stage] * exec->division.group_rows;
  origin->scale = exec->division.phase_rows[phase - plan->phases];
  if (phase == plan->phases && range->call0 == phase->call0) {
    hd__tally_end(at->thread->tally, HD_SPENT_COMPUTE);
    hd__exec_fetch_group(at, &group);
    hd__tally_end(at->thread->tally, HD_SPENT_DATA);
    hd__trace_leaf(at->thread->track, HD_SLICE_FETCH, 0);
  }
  for (int i = range->call0; i < range->call1; i++) {
    if (!hd__exec_needs(at, &plan->calls[i]))
      continue;
    if (plan->calls[i].per_shard)
      run_per_shard(at, &plan->calls[i], &group, *walk);
    else
      hd__exec_call(at, &plan->calls[i], &group);
    hd__trace_leaf(at->thread->track, HD_SLICE_CALL, plan->calls[i].node);
    if (exec->stages.apart)
      hd__exec_move_values(at);
  }
  if (!plan->trains && range->call1 == phase->call1)
    hd__exec_note_outcome(at, &group);
}

/* Runs all calls for as many shards at a time as the arena holds. */
void hd__exec_shards(const thread_at *at, const hd_phase *phase) {
  const hd_reduction *pushes = &hd__exec_range(at)->pushes;
  const hd_reduction_step *step = pushes->step;
  const hd_stage_range all = {.call0 = phase->call0, .call1 = phase->call1};
  const int64_t rows = at->exec->division.phase_rows[phase - at->exec->plan->phases];
  int depth = 0;
  if (phase > at->exec->plan->phases)
    hd__exec_gather(at, phase - 1);
  for (int first = 0, end; first < pushes->count; first = end) {
    end = first + 1;
    while (end < pushes->count && step[end].row1 - step[first].row0 <= rows)
      end++;
    const hd_walk group = hd__walk_steps(step + first, end - first, depth);
    hd__exec_run_group(at, phase, &all, &group, 0);
    for (int s = first; s < end; s++)
      depth += 1 - step[s].merges;
  }
}
