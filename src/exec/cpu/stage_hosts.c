/* Stages on several hosts: sending values and gradients between them, and exchanging what all hosts need of a step.
 *
 * Of K stages and H hosts, host h has the stages s with s H / K = h completely: all shards, gradients, chunks and
 * optimizer states of their layers. A thread that has finished shards of a stage range sends the rows of the cut edges
 * to the ranks that run those shards in the next range, if that is on another host. Each shard has two tags, one for
 * each direction, so threads may receive in any order. A value for a later host is received and sent on by each host in
 * between.
 *
 *     host 0   F0 F1 .. B0 F2 ..        values of the shards' rows, from batch memory to the same place of
 *               \  \   /                the other host's; rows are not overwritten before they are read there
 *     host 1     F0 B0 F1 ..
 *
 * At the end of a step all hosts receive the losses of the last stage and the flags. Before an update that uses the
 * gradient's norm they receive the sums of squares of all chunks, which every thread adds in the order of the chunks.
 * Weights are sent when the first host has read a checkpoint, and when it computes the digest of weights that were not
 * saved. */
#include <string.h>

#include "exec/cpu/cpu_executor_state.h"

/* All layers that share a weight, which may be frozen, must be on one host. */
static hd_status check_weights(hd_ctx *ctx, const hd_exec_cpu *exec, const hd_plan_call *call) {
  const hd_plan *plan = exec->plan;
  for (int i = 0; i < HD_MAX_IN; i++) {
    const int value = plan->graph->nodes[call->node].in[i];
    if (value < 0 || plan->place[value].where != HD_AT_PARAM)
      continue;
    const hd_plan_param *param = &plan->params[plan->graph->values[value].param];
    if (hd__exec_stage_host(exec, call->stage) != hd__exec_stage_host(exec, param->stage))
      return hd__fail(ctx, HD_E_USAGE,
                      "--place-stages hosts expects all layers that use '%s' on one host, found them in stages %d and "
                      "%d on different hosts; cut elsewhere, or use --place-stages threads",
                      param->name, param->stage, call->stage);
  }
  return HD_OK;
}

hd_status hd__exec_check_stage_hosts(const hd_exec_cpu *exec, hd_ctx *ctx) {
  const hd_plan *plan = exec->plan;
  if (exec->stages.apart && plan->pipeline.stages.count < exec->exchange.hosts)
    return hd__fail(
        ctx, HD_E_USAGE,
        "--place-stages hosts expects a stage for each of the %d hosts, found %d stages; use more --stages, "
        "or --place-stages threads",
        exec->exchange.hosts, plan->pipeline.stages.count);
  for (int i = 0; exec->stages.apart && i < plan->call_count; i++)
    HD_TRY(check_weights(ctx, exec, &plan->calls[i]));
  return HD_OK;
}

/* ---- Between stages ---- */

/* The rank of the thread that runs a shard in a stage. */
static int rank_at(const hd_exec_cpu *exec, int stage, int32_t shard) {
  const int32_t *border = hd__exec_border(exec, stage);
  int thread = 0;
  while (border[thread + 1] <= shard)
    thread++;
  return exec->division.rank_of[thread];
}

/* Whether a value passes between two neighbouring stages. */
static bool passes(const hd_cut_edge *value, int from, int to) {
  return from < to ? value->from <= from && to <= value->last : value->first <= to && from <= value->from;
}

/* A transfer between two stages: `peer` is the rank of the other host. */
typedef struct passage {
  int from, to, peer;
  bool receives;
} passage;

static bool start(hd_transfer **out, const thread_at *at, const passage *p, const hd_reduction_step *step) {
  const hd_plan *plan = at->exec->plan;
  const int64_t rows = step->row1 - step->row0;
  const int32_t tag = HD_TAG_STAGES + (p->from > p->to) * HD_MAX_SHARDS + hd__exec_shard(at, step);
  const call_rows at_row = hd__exec_rows(at, rows, step->row0, at->layout->first + step->row0);
  int count = 0;
  for (const hd_cut_edge *value = plan->pipeline.cut_edges;
       value < plan->pipeline.cut_edges + plan->pipeline.cut_edge_count; value++)
    if (passes(value, p->from, p->to))
      at->thread->parts[count++] = (hd_transfer_part){.data = hd__place_at(&value->place, at_row.origin),
                                                      .bytes = rows * value->place.row_bytes,
                                                      .peer = p->peer,
                                                      .tag = tag,
                                                      .receives = p->receives};
  *out = NULL;
  return count == 0 || hd__cluster_start(out, at->exec->settings.local, NULL, at->thread->parts, count) == HD_OK;
}

/* Starts a transfer for each of the pushes [push, end). */
static bool start_unit(stage_mail *mail, const thread_at *at, passage p, int push, int end) {
  const hd_exec_cpu *exec = at->exec;
  const hd_reduction_step *step = hd__exec_range(at)->pushes.step;
  for (; push < end; push++) {
    p.peer = rank_at(exec, p.receives ? p.from : p.to, hd__exec_shard(at, &step[push]));
    if (!start(&mail->transfer[mail->count], at, &p, &step[push]))
      return false;
    mail->peer[mail->count++] = p.peer;
  }
  return true;
}

/* Waits for the first `count` transfers. */
static bool finish(stage_mail *mail, const thread_at *at, int count) {
  const bool all = hd__cluster_await(at->exec->settings.local, NULL, mail->transfer, mail->peer, count) == HD_OK;
  mail->count -= count;
  memmove(mail->transfer, mail->transfer + count, (size_t)mail->count * sizeof *mail->transfer);
  memmove(mail->peer, mail->peer + count, (size_t)mail->count * sizeof *mail->peer);
  return all;
}

bool hd__exec_receive_values(const thread_at *at, const hd_stage_range *range, int push, int end, int next_end) {
  const passage p = {.from = range[-1].stage, .to = range->stage, .receives = true};
  stage_mail *mail = &at->thread->received[p.from > p.to];
  const int64_t began_ns = hd__clock_ns();
  hd__tally_end(at->thread->tally, HD_SPENT_COMPUTE);
  const bool started = start_unit(mail, at, p, push + mail->count, next_end);
  const int peer = mail->peer[0];
  const bool came = started && finish(mail, at, end - push);
  hd__tally_waited(at->thread->tally, peer);
  hd__trace_leaf(at->thread->track, HD_SLICE_BUBBLE, p.from);
  at->exec->stages.work[at->index].waited_ns += hd__clock_ns() - began_ns;
  return came;
}

bool hd__exec_send_values(const thread_at *at, const hd_stage_range *range, int push, int end) {
  const hd_plan *plan = at->exec->plan;
  const hd_stage_range *next = range + 1;
  const bool is_last = next == plan->pipeline.ranges + plan->phases[plan->segments - 1].range1;
  if (is_last || hd__exec_has_stage(at->exec, next->stage))
    return true;
  return start_unit(&at->thread->sent, at, (passage){.from = range->stage, .to = next->stage}, push, end);
}

/* Some transports need the sender's memory until the receiver has the rows. */
bool hd__exec_finish_sends(const thread_at *at) { return finish(&at->thread->sent, at, at->thread->sent.count); }

/* Testing one transfer makes progress on all of the process. */
void hd__exec_move_values(const thread_at *at) {
  stage_mail *const mail[] = {&at->thread->sent, &at->thread->received[0], &at->thread->received[1]};
  for (int m = 0; m < 3; m++)
    for (int i = 0; i < mail[m]->count; i++) {
      if (!mail[m]->transfer[i])
        continue;
      if (hd__cluster_test(at->exec->settings.local, mail[m]->transfer[i], mail[m]->peer[i]) != 0)
        mail[m]->transfer[i] = NULL;
      return;
    }
}

/* ---- Norms, losses and flags for all hosts ---- */

/* Publishes an array with one number per chunk; each host has filled in those of its chunks. */
static void publish_chunks(const thread_at *at, double *of_chunk) {
  hd_exec_cpu *exec = at->exec;
  int64_t *bytes = hd__exchange_publish(&exec->exchange, of_chunk);
  memset(bytes, 0, (size_t)exec->exchange.hosts * sizeof *bytes);
  for (const hd_chunk *c = exec->plan->chunks; c < exec->plan->chunks + exec->plan->chunk_count; c++)
    bytes[hd__exec_stage_host(exec, exec->plan->params[c->param].stage)] += (int64_t)sizeof *of_chunk;
}

static void publish_losses(const thread_at *at) {
  hd_exec_cpu *exec = at->exec;
  int64_t *bytes = hd__exchange_publish(&exec->exchange, exec->batch.losses);
  for (int h = 0; h < exec->exchange.hosts; h++)
    bytes[h] = h == exec->exchange.hosts - 1 ? at->step->samples * (int64_t)sizeof *exec->batch.losses : 0;
}

uint32_t hd__exec_exchange_norms(const thread_at *at) {
  if (hd__exec_leads(at)) {
    publish_chunks(at, at->exec->norm.of_chunk);
    if (!hd__exec_finish_exchange(at, NULL, NULL, false))
      return HD_BARRIER_BROKEN;
  }
  return hd__exec_wait_for_exchange(at, 0);
}

uint32_t hd__exec_exchange_losses(const thread_at *at) {
  uint32_t all = hd__exec_wait_for_exchange(at, at->thread->flags);
  if (all & HD_BARRIER_BROKEN)
    return all;
  if (hd__exec_leads(at)) {
    all |= at->exec->hosts.carried;
    publish_losses(at);
    if (!hd__exec_finish_exchange(at, NULL, &all, at->step->reports))
      return HD_BARRIER_BROKEN;
  }
  return hd__exec_wait_for_exchange(at, 0);
}

/* ---- Collecting weights ---- */

/* Where a host's parameters end in the concatenation of all: among the trained ones, or among the others. */
static int64_t end_of_host(const hd_exec_cpu *exec, int host, bool trained) {
  const hd_plan *plan = exec->plan;
  int64_t end = trained ? plan->size.trained_elems : plan->size.param_elems;
  for (const hd_plan_param *p = plan->params; p < plan->params + plan->param_count; p++)
    if (p->trained == trained && hd__exec_stage_host(exec, p->stage) > host && p->offset < end)
      end = p->offset;
  return end;
}

/* An array of the store: host h has the bytes [from[h], from[h + 1]). */
typedef struct shared_array {
  void *data;
  int64_t from[HD_LOCAL_GROUP_MOST_RANKS + 1];
} shared_array;

enum { MOST_ARRAYS = 4 + HD_MAX_STATES };

static void add_array(shared_array *to, int *count, const hd_exec_cpu *exec, float *data, bool trained) {
  const int64_t first = trained ? 0 : exec->plan->size.trained_elems;
  shared_array *array = &to[(*count)++];
  array->data = data + first;
  array->from[0] = 0;
  for (int h = 0; h < exec->exchange.hosts; h++)
    array->from[h + 1] = (end_of_host(exec, h, trained) - first) * (int64_t)sizeof *data;
}

/* Of the last version: the parameters that are trained, with their states, and the others. */
static int find_arrays(shared_array *out, const hd_exec_cpu *exec) {
  const hd_store *store = exec->store;
  const int buffer = hd__store_buffer(store);
  float *const versions[] = {store->weights[buffer], store->average[buffer]};
  int count = 0;
  for (int v = 0; v < 2; v++)
    for (int trained = 0; trained < 2 && versions[v]; trained++)
      add_array(out, &count, exec, versions[v], trained);
  for (int i = 0; i < store->directory->states; i++)
    add_array(out, &count, exec, store->state[buffer][i], true);
  return count;
}

/* Sends an array to the first host (`collects`) or from it. */
static hd_status move_array(const hd_exec_cpu *exec, hd_ctx *ctx, const shared_array *array, bool collects) {
  int64_t bytes[HD_LOCAL_GROUP_MOST_RANKS];
  int32_t row[HD_LOCAL_GROUP_MOST_RANKS + 1] = {0};
  for (int h = 0; h < exec->exchange.hosts; h++) {
    bytes[h] = array->from[h + 1] - array->from[h];
    row[h + 1] = 1; /* the first host has it, as one row */
  }
  const hd_blocks blocks = {.data = array->data, .bytes = bytes, .to_first = true};
  const hd_slices slices = {.data = array->data, .row = row, .from = array->from};
  return hd__cluster_join_blocks(NULL, exec->settings.local, ctx, &blocks, collects, collects ? NULL : &slices);
}

static hd_status move_all(const hd_exec_cpu *exec, hd_ctx *ctx, bool collects) {
  HD_OWNED shared_array *array = hd__calloc(MOST_ARRAYS, sizeof *array);
  if (!exec->stages.apart)
    return HD_OK;
  HD_TRY(HD_ALLOCATED(array, ctx, "out of memory for the weights of other hosts"));
  const int count = hd__cluster_leads(exec->settings.local) ? find_arrays(array, exec) : 0;
  for (int i = 0; i < count; i++)
    HD_TRY(move_array(exec, ctx, &array[i], collects));
  return hd__local_group_barrier(exec->settings.local, ctx);
}

hd_status hd__exec_cpu_collect(void *self, hd_ctx *ctx) { return move_all(self, ctx, true); }

hd_status hd__exec_cpu_spread(void *self, hd_ctx *ctx) { return move_all(self, ctx, false); }
