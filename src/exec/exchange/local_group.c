/* The local group: its ranks, their faults and their collectives; see local_group.h. */
#include "exec/exchange/local_group_state.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/event_log.h"
#include "exec/exchange/cluster_state.h"
#include "heddle/topology.h"
#include "platform/openmp_binding.h"
#include "platform/process.h"

static void late_at_barrier(void *self, int rank, int64_t waited_ns) { hd__local_group_late(self, rank, waited_ns); }

size_t hd__local_group_lay_out(hd_local_group *group, char *base, int ranks) {
  size_t record = (sizeof(group_head) + 127) / 128 * 128;
  size_t slots = record + (hd__fault_record_bytes(ranks + 1) + 127) / 128 * 128;
  size_t lines = slots + (size_t)ranks * sizeof(rank_slot);
  size_t places = lines + (size_t)HD_BARRIER_LINES(ranks) * sizeof(hd_barrier_line);
  size_t blocks = places + 2 * (size_t)ranks * sizeof(gather_slot);
  if (base) {
    group->head = (group_head *)base;
    group->record = (hd_fault_record *)(base + record);
    group->slot = (rank_slot *)(base + slots);
    group->place = (gather_slot *)(base + places);
    group->block = (shared_block *)(base + blocks);
    group->barrier_watch = (hd_barrier_watch){.broken = &group->record->state, .late = late_at_barrier, .self = group};
    hd__barrier_join(&group->barrier, (hd_barrier_line *)(base + lines), ranks, 1, &group->barrier_watch);
  }
  return blocks + HD_LOCAL_GROUP_BLOCKS * sizeof(shared_block);
}

/* ---- properties ---- */

int hd__local_group_rank(const hd_local_group *group) { return group ? group->rank : 0; }

int hd__local_group_ranks(const hd_local_group *group) { return group ? group->ranks : 1; }

int hd__local_group_fd(const hd_local_group *group) { return group ? group->fd : -1; }

bool hd__local_group_is_parented(const hd_local_group *group) { return group && group->head->parent != 0; }

int hd__local_group_parent(const hd_local_group *group, uint64_t *start) {
  *start = group->head->parent_start;
  return group->head->parent;
}

hd_rank_view hd__local_group_view(const hd_local_group *group, int rank) {
  rank_slot *slot = &group->slot[rank];
  const int state = atomic_load(&slot->state);
  if (state < HD_RANK_JOINED) /* the rest is not written yet */
    return (hd_rank_view){.state = state, .step = -1};
  return (hd_rank_view){state, slot->pid, slot->start, atomic_load_explicit(&slot->step, memory_order_relaxed)};
}

void hd__local_group_set_timeout(hd_local_group *group, double seconds) {
  if (group)
    group->timeout_s = seconds;
}

double hd__local_group_timeout(const hd_local_group *group) { return group->timeout_s; }

/* The L3 cache of the CPUs that this thread may use; -1: several. */
static int find_cache(void) {
  hd_topology *machine;
  hd_cpu_set may;
  int cache = -2;
  if (!hd__openmp_unbound(&may) || hd_topology_create(&machine, NULL) != HD_OK)
    return -1;
  for (int i = 0; i < machine->cpus; i++) {
    const hd_cpu *cpu = &machine->cpu[i];
    if (hd__cpu_set_has(&may, cpu->cpu))
      cache = cache == -2 || cache == cpu->l3 ? cpu->l3 : -1;
  }
  hd_topology_destroy(machine);
  return cache < 0 ? -1 : cache;
}

int hd__local_group_cache(hd_local_group *group) {
  enum { FEWEST = 4 };
  if (group->cache == -2)
    group->cache = group->ranks < FEWEST ? -1 : find_cache();
  return group->cache;
}

int64_t hd__local_group_next_group(const hd_local_group *group) { return group->next_group; }

void hd__local_group_set_next_group(hd_local_group *group, int64_t number) { group->next_group = number; }

struct hd_cluster *hd__local_group_cluster(const hd_local_group *group) {
  return group ? atomic_load(&group->cluster) : NULL;
}

void hd__local_group_set_cluster(hd_local_group *group, struct hd_cluster *cluster) {
  atomic_store(&group->cluster, cluster);
}

const char *hd__local_group_host_name(const hd_local_group *group) { return group ? group->host : "this host"; }

void hd__local_group_step(hd_local_group *group, int64_t step) {
  if (group)
    atomic_store_explicit(&group->slot[group->rank].step, step, memory_order_relaxed);
}

/* ---- faults ---- */

void hd__local_group_break(hd_local_group *group, const hd_fault *fault) {
  const struct hd_cluster *cluster = hd__local_group_cluster(group);
  hd_fault whole = *fault;
  for (int r = 0; r < group->ranks && fault->step >= 0 && fault->rank >= 0;
       r++) { /* it may not have counted its last */
    const int64_t step = hd__local_group_view(group, r).step;
    whole.step = step > whole.step ? step : whole.step;
  }
  if (fault->rank >= 0) {
    whole.global_rank = hd__cluster_global_rank(cluster, fault->rank);
    snprintf(whole.host, sizeof whole.host, "%s", cluster ? cluster->host[cluster->this_host].name : group->host);
  }
  /* The threads of a process share one note: the first of them writes it. */
  if (!atomic_exchange(&group->notes, true)) {
    HD_LOG(RANKS, "the group is broken: fault %d, rank %d, after step %lld", (int)fault->kind, fault->rank,
           (long long)whole.step);
    hd__fault_put(group->record, group->rank >= 0 ? group->rank : group->ranks, &whole);
  }
  while (atomic_load(&group->record->state) == 0)
    sched_yield();
}

void hd__local_group_give_up(hd_local_group *group, const char *why) {
  if (!group || group->rank < 0)
    return;
  const hd_rank_view view = hd__local_group_view(group, group->rank);
  hd_fault fault = {.kind = HD_FAULT_GAVE_UP, .rank = group->rank, .pid = view.pid, .step = view.step};
  snprintf(fault.text, sizeof fault.text, "%s", why);
  hd__local_group_break(group, &fault);
  if (hd__local_group_fault(&fault, group))
    hd__cluster_send_fault(hd__local_group_cluster(group), &fault);
}

const atomic_uint *hd__local_group_broken_word(const hd_local_group *group) { return &group->record->state; }

void hd__local_group_late(hd_local_group *group, int rank, int64_t waited_ns) {
  const struct hd_cluster *cluster = hd__local_group_cluster(group);
  const double more_s = cluster && cluster->count > 1 && rank == 0 ? 2 * HD_OTHER_HOST_S : 0;
  if ((double)waited_ns < 1e9 * (group->timeout_s + more_s))
    return;
  const hd_rank_view view = hd__local_group_view(group, rank);
  hd__local_group_break(group, &(hd_fault){.kind = HD_FAULT_LATE,
                                           .rank = rank,
                                           .pid = view.pid,
                                           .number = (int32_t)(waited_ns / 1000000000),
                                           .step = view.step});
}

void hd__local_group_keep_process(hd_local_group *group) {
  if (group)
    atomic_store(&group->acknowledged, true);
}

bool hd__local_group_lost(hd_process_state *process, const hd_local_group *group, int rank) {
  const hd_rank_view view = hd__local_group_view(group, rank);
  if (view.state != HD_RANK_JOINED)
    return false;
  *process = hd__process_read(view.pid, view.start);
  return process->has_ended && hd__local_group_view(group, rank).state == HD_RANK_JOINED;
}

static bool is_first_left(const hd_local_group *group, const hd_fault *fault) {
  for (int r = 0; r < group->rank; r++) {
    const hd_rank_view view = hd__local_group_view(group, r);
    const bool lost = fault->kind != HD_FAULT_PARENT && fault->rank == r;
    if (view.state == HD_RANK_JOINED && !lost && !hd__process_read(view.pid, view.start).has_ended)
      return false;
  }
  return true;
}

bool hd__local_group_is_saver(const hd_local_group *group) {
  hd_fault fault;
  return hd__local_group_fault(&fault, group) && (!group->head->parent || fault.kind == HD_FAULT_PARENT) &&
         is_first_left(group, &fault);
}

bool hd__local_group_fault(hd_fault *out, const hd_local_group *group) {
  return group && hd__fault_get(out, group->record, group->ranks + 1);
}

hd_status hd__local_group_check(hd_local_group *group, hd_ctx *ctx) {
  hd_fault fault;
  char line[HD_FAULT_LINE_BYTES];
  if (!hd__local_group_fault(&fault, group))
    return HD_OK;
  atomic_store(&group->acknowledged, true);
  if (hd__local_group_cluster(group) && is_first_left(group, &fault))
    hd__cluster_send_fault(hd__local_group_cluster(group), &fault);
  return hd__fail(ctx, HD_E_PEER, "%s", hd__fault_line(line, &fault));
}

/* ---- collectives ---- */

hd_status hd__local_group_gather(void *all, hd_local_group *group, hd_ctx *ctx, const void *input, size_t bytes) {
  if (!group || group->ranks == 1) {
    memcpy(all, input, bytes);
    return HD_OK;
  }
  gather_slot *place = group->place + (group->gathers++ & 1) * (uint64_t)group->ranks;
  place[group->rank].bytes = (uint32_t)bytes;
  memcpy(place[group->rank].data, input, bytes);
  if (hd__barrier_wait(&group->barrier, group->rank, 0) & HD_BARRIER_BROKEN)
    return hd__local_group_check(group, ctx);
  for (int r = 0; r < group->ranks; r++) {
    if (place[r].bytes != bytes)
      return hd__fail(ctx, HD_E_USAGE,
                      "expected all ranks to make the same call, but rank %d passes %u bytes where rank %d passes %zu; "
                      "do all ranks make the same calls in the same order?",
                      r, place[r].bytes, group->rank, bytes);
    memcpy((char *)all + (size_t)r * bytes, place[r].data, bytes);
  }
  return HD_OK;
}

hd_status hd__local_group_barrier(hd_local_group *group, hd_ctx *ctx) {
  char all[HD_LOCAL_GROUP_MOST_RANKS];
  return hd__local_group_gather(all, group, ctx, "", 1);
}
