/* The exchange of partial sums between hosts in a step. Afterwards each host finishes all sums by itself.
 *
 * Hosts have neighbouring ranges of shards, as threads have inside a host. Each host sums the complete subtrees
 * inside its range: its partial sums. In the all-gather every host receives the partial sums of all hosts, reduces
 * them in the order of the tree, and updates all weights: the bits are equal on all hosts, and weights are never
 * sent. With more hosts, or large gradients, each host owns a range of the elements instead: the owner alone
 * receives the partial sums of its range, reduces them in the same order, and sends the result to all hosts. That
 * doubles the latencies and keeps the bytes independent of the number of hosts; docs/scaling.md has the model that
 * chooses. The first thread of a host runs the exchange while the other threads wait at a barrier. The sums are sent
 * together with the losses of the host's samples, the sums that a gather reads, and the flags raised so far. A stop
 * flag raised later is sent with the next step, so all hosts receive it in the same step. */
#include <string.h>

#include "base/alloc.h"
#include "exec/cpu/cpu_executor_state.h"

/* ---- owners ---- */

/* The network assumed by the choice: seconds per latency, byte, message and addition. */
static const double LATENCY_S = 10e-6, BYTE_S = 8 / 25e9, MESSAGE_S = 1e-6, ADD_S = 0.1e-9;

/* The model of docs/scaling.md, for `subtrees` partial sums in all; the host with the fewest has `least`. */
static bool owners_pay(int hosts, int32_t subtrees, int32_t least, int64_t elems) {
  const double sum_s = BYTE_S * 4 * (double)elems, add_s = ADD_S * (double)elems;
  const double all_hosts_s = LATENCY_S + (hosts - 1) * MESSAGE_S + (subtrees - least) * sum_s + subtrees * add_s;
  const double owners_s = 2 * LATENCY_S + 2 * (hosts - 1) * MESSAGE_S + (double)(subtrees + hosts - 1) / hosts * sum_s +
                          subtrees * add_s / hosts;
  return owners_s < all_hosts_s;
}

hd_status hd__exec_choose_owners(hd_exec_cpu *exec, hd_ctx *ctx) {
  const hd_micro_batch micro_batch =
      hd__tree_micro_batch(exec->settings.batch, exec->settings.shards, exec->settings.micro_batches, 0);
  const int64_t elems = exec->plan->size.grad_elems;
  int32_t subtrees = 0, least = INT32_MAX;
  for (int h = 0; h < exec->exchange.hosts; h++) {
    hd_range_plan range;
    hd__tree_range(&range, &micro_batch, micro_batch.lo + exec->division.host_border[h],
                   micro_batch.lo + exec->division.host_border[h + 1]);
    subtrees += range.subtree_count;
    least = range.subtree_count < least ? range.subtree_count : least;
  }
  exec->hosts.has_owners =
      exec->hosts.setting ? exec->hosts.setting == 2 : owners_pay(exec->exchange.hosts, subtrees, least, elems);
  if (!exec->hosts.has_owners)
    return HD_OK;
  HD_TRY(HD_NEW(exec->hosts.owned_bytes, exec->exchange.hosts + 1, ctx, "out of memory for %d hosts",
                exec->exchange.hosts));
  for (int h = 0; h < exec->exchange.hosts; h++) {
    const int64_t end =
        h + 1 < exec->exchange.hosts ? elems * (h + 1) / exec->exchange.hosts / OWNED_ALIGN * OWNED_ALIGN : elems;
    exec->hosts.owned_bytes[h + 1] = end * (int64_t)sizeof(float);
  }
  return HD_OK;
}

/* Each thread reduces its share of the range that this host owns. */
static void sum_owned(const thread_at *at) {
  const hd_exec_cpu *exec = at->exec;
  const int64_t size = sizeof(float), threads = hd__exchange_threads(&exec->exchange),
                thread = at->index - hd__exec_host_first(exec);
  const int64_t *owned = exec->hosts.owned_bytes + exec->exchange.host;
  const int64_t first = owned[0] / size, count = (owned[1] - owned[0]) / size;
  const int64_t lo = count * thread / threads / OWNED_ALIGN * OWNED_ALIGN;
  const int64_t hi = thread + 1 < threads ? count * (thread + 1) / threads / OWNED_ALIGN * OWNED_ALIGN : count;
  for (int64_t e = lo; e < hi; e += REDUCE_ELEMS)
    hd__exec_sum_owned(at, first + e, hi - e < REDUCE_ELEMS ? hi - e : REDUCE_ELEMS);
  hd__trace_leaf(at->thread->track, HD_SLICE_NORM, 0);
}

/* ---- sums that a gather reads: each thread's partial sums of the gathered outputs of a phase ---- */

/* The elements of the gathered outputs of the partial sums before those of `host`. */
static int64_t gathered_before(const thread_at *at, const hd_phase *phase, int host) {
  int64_t elems = 0;
  for (const hd_plan_call *call = at->exec->plan->calls + phase->call0; call < at->exec->plan->calls + phase->call1;
       call++)
    for (int o = 0; o < HD_MAX_OUT && call->gathered; o++)
      elems += hd__exec_first_sum(at, call->stage, host) * call->out[o].elems;
  return elems;
}

/* Copies the gathered outputs of a host's partial sums to all_gathered, or back. */
static void copy_sums(const thread_at *at, const hd_phase *phase, int host, bool out) {
  float *flat = at->exec->hosts.gathered + gathered_before(at, phase, host);
  for (const hd_plan_call *call = at->exec->plan->calls + phase->call0; call < at->exec->plan->calls + phase->call1;
       call++) {
    const int32_t end = call->gathered ? hd__exec_first_sum(at, call->stage, host + 1) : 0;
    for (int32_t p = hd__exec_first_sum(at, call->stage, host); p < end; p++)
      for (int o = 0; o < HD_MAX_OUT; o++) {
        float *sum = at->layout->stage[call->stage].sum[p] + call->out[o].offset;
        memcpy(out ? flat : sum, out ? sum : flat, (size_t)call->out[o].elems * sizeof *flat);
        flat += call->out[o].elems;
      }
  }
}

/* ---- the first thread of a host ---- */

static void publish_gathered(const thread_at *at, const hd_phase *phase) {
  int64_t *bytes = hd__exchange_publish(&at->exec->exchange, at->exec->hosts.gathered);
  for (int h = 0; h < at->exec->exchange.hosts; h++)
    bytes[h] = (gathered_before(at, phase, h + 1) - gathered_before(at, phase, h)) * (int64_t)sizeof(float);
  copy_sums(at, phase, at->exec->exchange.host, true);
}

static void take_gathered(const thread_at *at, const hd_phase *phase) {
  for (int h = 0; h < at->exec->exchange.hosts; h++)
    if (h != at->exec->exchange.host)
      copy_sums(at, phase, h, false);
}

static void publish_losses(const thread_at *at) {
  hd_exec_cpu *exec = at->exec;
  const int64_t *row = at->layout->hosts->sums.row;
  int64_t *bytes = hd__exchange_publish(&exec->exchange, exec->batch.losses + at->layout->first);
  for (int h = 0; h < exec->exchange.hosts; h++)
    bytes[h] = (row[h + 1] - row[h]) * (int64_t)sizeof *exec->batch.losses;
}

/* With owners as slices, else as a block for each host. */
static void publish_sums(hd_slices *slices, const thread_at *at) {
  hd_exec_cpu *exec = at->exec;
  const int32_t *first_sum = at->layout->hosts->sums.first;
  const int64_t stride = exec->plan->size.grad_elems * (int64_t)sizeof *exec->hosts.sum;
  if (exec->hosts.has_owners) {
    *slices = (hd_slices){.data = exec->hosts.sum, .stride = stride, .row = first_sum, .from = exec->hosts.owned_bytes};
    return;
  }
  int64_t *bytes = hd__exchange_publish(&exec->exchange, exec->hosts.sum);
  for (int h = 0; h < exec->exchange.hosts; h++)
    bytes[h] = (first_sum[h + 1] - first_sum[h]) * stride;
}

/* ---- all threads ---- */

uint32_t hd__exec_exchange_phase(const thread_at *at, const hd_phase *phase) {
  if (hd__exec_leads(at)) {
    publish_gathered(at, phase);
    if (!hd__exec_finish_exchange(at, NULL, NULL, false))
      return HD_BARRIER_BROKEN;
    take_gathered(at, phase);
  }
  return hd__exec_wait_for_exchange(at, 0);
}

static bool exchange_sums(const thread_at *at, uint32_t flags) {
  const hd_plan *plan = at->exec->plan;
  const hd_phase *last = &plan->phases[plan->segments - 1];
  hd_slices slices = {0};
  flags |= at->exec->hosts.carried;
  publish_losses(at);
  if (at->layout->shards.count > 0)
    publish_sums(&slices, at);
  if (plan->gathers)
    publish_gathered(at, last);
  if (!hd__exec_finish_exchange(at, slices.data ? &slices : NULL, &flags, at->last && at->step->reports))
    return false;
  if (plan->gathers)
    take_gathered(at, last);
  return true;
}

static bool exchange_owned(const thread_at *at) {
  hd_exec_cpu *exec = at->exec;
  int64_t *bytes = hd__exchange_publish(&exec->exchange, exec->hosts.owned_sum);
  for (int h = 0; h < exec->exchange.hosts; h++)
    bytes[h] = exec->hosts.owned_bytes[h + 1] - exec->hosts.owned_bytes[h];
  return hd__exec_finish_exchange(at, NULL, NULL, false);
}

uint32_t hd__exec_exchange_sums(const thread_at *at) {
  const bool sums = at->layout->shards.count > 0;
  if (sums)
    hd__exec_sum_host(at);
  uint32_t all = hd__exec_wait_for_exchange(at, at->thread->flags);
  if (all & HD_BARRIER_BROKEN)
    return all;
  if (hd__exec_leads(at) && !exchange_sums(at, all))
    return HD_BARRIER_BROKEN;
  all = hd__exec_wait_for_exchange(at, 0);
  if (!sums || !at->exec->hosts.has_owners || all & HD_BARRIER_BROKEN)
    return all;
  sum_owned(at);
  all = hd__exec_wait_for_exchange(at, 0);
  if (all & HD_BARRIER_BROKEN)
    return all;
  if (hd__exec_leads(at) && !exchange_owned(at))
    return HD_BARRIER_BROKEN;
  return hd__exec_wait_for_exchange(at, 0);
}
