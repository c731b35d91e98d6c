/* A shards phase: a thread takes its shards through a segment of the network, in most plans the whole network, group by
 * group, and sums their direct gradients and statistics.
 *
 * A group is as many neighbouring shards as the arena holds; ROWS calls handle a group at once, REDUCE calls stop at
 * each shard's border. Each shard's gradients are pushed on the thread's stack of partial sums and merged
 * in the order of the tree. */
#include <string.h>

#include "exec/cpu/cpu_executor_state.h"
#include "op/op.h"

static void *resolve(const thread_at *at, const hd_place *place, hd_dtype dtype, const call_rows *rows) {
  const hd_exec_cpu *exec = at->exec;
  int64_t row_bytes = place->stride * hd__dtype_bytes(dtype);
  switch (place->where) {
  case HD_AT_ARENA: return at->thread->arena + place->offset * exec->group_rows + rows->arena_row * row_bytes;
  case HD_AT_BATCH: {
    int64_t capacity = (exec->settings.batch + exec->settings.micro_batches - 1) / exec->settings.micro_batches;
    return (char *)exec->batch_memory + place->offset * capacity + rows->micro_batch_row * row_bytes;
  }
  case HD_AT_LABELS: return rows->targets + rows->arena_row * row_bytes;
  case HD_AT_LOSSES: return rows->losses + rows->batch_row;
  case HD_AT_PARAM: return exec->store->weights[at->buffer] + exec->plan->params[place->offset].offset;
  case HD_AT_CONST: return exec->plan->graph->values[place->offset].constant;
  case HD_AT_DIRECT: return rows->direct + place->offset;
  case HD_AT_NOWHERE: break;
  }
  return NULL;
}

float *hd__exec_rows_at(const thread_at *at, int value, const call_rows *rows) {
  return resolve(at, &at->exec->plan->place[value], at->exec->plan->graph->values[value].dtype, rows);
}

void hd__exec_fetch(const thread_at *at, const call_rows *group) {
  const hd_plan *plan = at->exec->plan;
  const hd_value *label = &plan->graph->values[plan->graph->label];
  hd_slots to = {.x = hd__exec_rows_at(at, plan->graph->input, group),
                 .x_stride = plan->place[plan->graph->input].stride,
                 .target = group->targets,
                 .target_stride = plan->place[plan->graph->label].stride,
                 .outputs = label->dtype == HD_F32 ? (int32_t)hd__shape_elems(&label->shape) : 0,
                 .scratch = at->thread->fetch};
  at->thread->flags |= at->exec->driver->fetch(at->exec->driver->self, at->step, group->batch_row, group->rows, &to);
}

void hd__exec_call(const thread_at *at, const hd_plan_call *planned, const call_rows *rows) {
  const hd_plan *plan = at->exec->plan;
  const hd_node *node = &plan->graph->nodes[planned->node];
  hd_call call = {.g = &node->geom,
                  .rows = rows->rows,
                  .scratch = at->thread->scratch,
                  .divisor = at->step->divisor,
                  .batch_rows = at->step->samples};
  call.draw = (hd_draw){.seed = at->step->seed,
                        .epoch = at->step->epoch,
                        .position = (uint32_t)(at->step->cursor + rows->batch_row),
                        .node = (uint32_t)node->written};
  call_rows in = *rows;
  in.direct = at->thread->gathered; /* sums over all shards, gathered after a barrier */
  for (int i = 0; i < HD_MAX_IN; i++) {
    if (node->in[i] < 0)
      continue;
    const hd_place *place = &plan->place[node->in[i]];
    call.in[i] = resolve(at, place, plan->graph->values[node->in[i]].dtype, &in);
    call.in_stride[i] = place->stride;
  }
  for (int i = 0; i < HD_MAX_OUT; i++) {
    if (node->out[i] < 0)
      continue;
    const hd_place *place = &plan->place[node->out[i]];
    call.out[i] = resolve(at, place, plan->graph->values[node->out[i]].dtype, rows);
    call.out_stride[i] = place->stride;
  }
  if (planned->packed >= 0)
    call.packed = at->exec->store->packed[at->buffer] + plan->packed[planned->packed].offset;
  if (rows->j1 > 0)
    plan->kernels->run_outputs[planned->op](&call, rows->j0, rows->j1);
  else
    (planned->by_shard ? plan->kernels->shard_run : plan->kernels->run)[planned->op](&call);
}

static void merge_sums(const thread_at *at, const hd_node *node, int depth) {
  const hd_plan *plan = at->exec->plan;
  float *left = at->thread->partial_sums + (depth - 2) * plan->direct_elems, *right = left + plan->direct_elems;
  for (int o = 0; o < HD_MAX_OUT; o++)
    if (node->out[o] >= 0) {
      int64_t offset = plan->place[node->out[o]].offset;
      plan->kernels->array.binary[HD_BINARY_ADD][HD_F32](left + offset, left + offset, right + offset,
                                                         hd__shape_elems(&plan->graph->values[node->out[o]].shape));
    }
}

/* Runs one call for each shard of the group; the shard's slot is the stack top at its push. */
static void run_per_shard(const thread_at *at, const hd_plan_call *call, const call_rows *group,
                          const hd_reduction_step *step, int shards, int depth) {
  int64_t slot_elems = at->exec->plan->direct_elems;
  const hd_node *node = &at->exec->plan->graph->nodes[call->node];
  for (int s = 0; s < shards; s++) {
    call_rows rows = *group;
    rows.rows = step[s].row1 - step[s].row0;
    rows.arena_row = step[s].row0 - group->micro_batch_row;
    rows.micro_batch_row = step[s].row0;
    rows.direct = at->thread->partial_sums + depth * slot_elems;
    hd__exec_call(at, call, &rows);
    if (hd__op_info(node->op)->class == HD_CLASS_SHARD || call->by_shard)
      continue; /* nothing is summed */
    at->thread->slot_rows[depth++] = rows.rows;
    for (int m = 0; m < step[s].merges; m++, depth--) {
      if (hd__op_info(node->op)->class == HD_CLASS_STATS)
        hd__exec_merge_stats(at, node, depth);
      else
        merge_sums(at, node, depth);
      at->thread->slot_rows[depth - 2] += at->thread->slot_rows[depth - 1];
    }
  }
}

/* Takes neighbouring shards through a phase's calls. `depth` is the stack's depth before their pushes. */
static void run_group(const thread_at *at, const hd_phase *phase, const hd_reduction_step *step, int shards,
                      int depth) {
  const hd_exec_cpu *exec = at->exec;
  const hd_plan *plan = exec->plan;
  call_rows group = {.rows = step[shards - 1].row1 - step[0].row0,
                     .micro_batch_row = step[0].row0,
                     .batch_row = at->layout->first + step[0].row0,
                     .losses = exec->losses};
  group.targets = exec->targets + group.batch_row * exec->target_bytes;
  if (phase == plan->phases) {
    hd__tally_end(at->thread->tally, HD_SPENT_COMPUTE);
    hd__exec_fetch(at, &group);
    hd__tally_end(at->thread->tally, HD_SPENT_DATA);
    hd__trace_leaf(at->thread->track, HD_SLICE_FETCH, 0);
  }
  for (int i = phase->call0; i < phase->call1; i++) {
    if (plan->calls[i].per_shard)
      run_per_shard(at, &plan->calls[i], &group, step, shards, depth);
    else
      hd__exec_call(at, &plan->calls[i], &group);
    hd__trace_leaf(at->thread->track, HD_SLICE_CALL, plan->calls[i].node);
  }
}

void hd__exec_shards(const thread_at *at, const hd_phase *phase) {
  const hd_range_plan *range = &at->layout->range[at->index];
  const hd_reduction_step *step = range->pushes.step;
  int depth = 0;
  if (phase > at->exec->plan->phases)
    hd__exec_gather(at, phase - 1);
  for (int first = 0, end; first < range->pushes.count; first = end) {
    end = first + 1;
    while (end < range->pushes.count && step[end].row1 - step[first].row0 <= at->exec->group_rows)
      end++;
    run_group(at, phase, step + first, end - first, depth);
    for (int s = first; s < end; s++)
      depth += 1 - step[s].merges;
  }
}
