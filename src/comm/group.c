/* Groups: creating and destroying them, and their memory. See group.h. */
#include "comm/group_state.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "exec/exchange/cluster.h"
#include "exec/exchange/local_group_join.h"
#include "comm/mailbox.h"
#include "exec/exchange/rendezvous.h"
#include "platform/memory_file.h"
#include "platform/openmp_binding.h"
#include "platform/thread_start.h"

enum { MOST_SLOT_BYTES = 256 << 10, LEAST_SLOT_BYTES = 16 << 10, ALL_SLOT_BYTES = 64 << 20, PAGE_BYTES = 4096 };
enum { LINE_BYTES = 128 };

static const double TIMEOUT_S = 1800;

/* ---- late ranks ---- */

/* Whether a rank of this host has not come to the barrier at which this rank waits. */
static bool is_missing(const hd_group *g, int rank) {
  const unsigned number = atomic_load(&g->barrier.line[g->place[g->rank]].came);
  return (int)(atomic_load(&g->barrier.line[g->place[rank]].came) - number) < 0;
}

static void report_missing(hd_group *g, int64_t waited_ns) {
  char missing[160] = "";
  int count = 0;
  for (int r = 0; r < g->ranks; r++) {
    const size_t at = strlen(missing);
    if (!hd__group_is_remote(g, r) && is_missing(g, r) && count++ < 16)
      snprintf(missing + at, sizeof missing - at, "%s%d", at ? ", " : "", r);
  }
  hd__group_break(g, HD_E_TIMEOUT,
                  "expected all ranks to make the same call within %g s, but rank%s %s%s did not, while rank %d "
                  "waited; do all ranks make the same calls? If so, raise the timeout",
                  g->call_timeout_s, count == 1 ? "" : "s", missing, count > 16 ? ", ..." : "", g->rank);
}

/* Called by the barrier while this rank waits. A leader gets a longer timeout, since it also waits for other hosts
 * and then reports which rank is missing. */
static void late(void *self, int place, int64_t waited_ns) {
  const double more_s = 2;
  hd_group *g = self;
  int rank = 0;
  while (hd__group_is_remote(g, rank) || g->place[rank] != place)
    rank++;
  if (hd__group_has_left(g, rank) && is_missing(g, rank)) /* asked in this order: it may come and then leave */
    hd__group_break_left(g, rank);
  if ((double)waited_ns > 1e9 * (g->call_timeout_s + (g->hosts > 1 && rank == g->leader ? more_s : 0)))
    report_missing(g, waited_ns);
}

/* ---- memory ---- */

/* Lays out the shared memory of a group; returns its size. */
static size_t lay_out(hd_group *g, char *base) {
  const size_t n = (size_t)g->ranks, lines = (sizeof(hd_group_end) / LINE_BYTES + 1) * LINE_BYTES;
  const size_t notes = lines + (size_t)HD_BARRIER_LINES(g->here) * sizeof(hd_barrier_line);
  const size_t event_counters =
      notes + (g->hosts > 1 ? (2 * n * HD_BARRIER_NOTE_BYTES / LINE_BYTES + 1) * LINE_BYTES : 0);
  const size_t slots = (event_counters + hd__event_counters_bytes(g->ranks) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  size_t slot = MOST_SLOT_BYTES;
  while (slot > LEAST_SLOT_BYTES && slot > LINE_BYTES * n && slot * 4 * n > ALL_SLOT_BYTES)
    slot /= 2; /* a slot holds at least a line for each rank */
  g->slot_bytes = slot;
  g->result_bytes = (slot / n / LINE_BYTES + 2) * LINE_BYTES;
  g->stride = (2 * (g->slot_bytes + g->result_bytes) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  const size_t mailboxes = slots + n * g->stride;
  if (base) {
    g->end = (hd_group_end *)base;
    g->line = (hd_barrier_line *)(base + lines);
    g->notes = base + notes;
    g->event_counter = (hd_event_counter *)(base + event_counters);
    g->slots = base + slots;
    g->mailboxes = base + mailboxes;
    g->watch = (hd_barrier_watch){.broken = &g->end->state, .late = late, .self = g};
  }
  return mailboxes + hd__mailboxes_bytes(&g->fragment_bytes, g->ranks);
}

/* Whether there are more ranks than CPUs: then waits spin only briefly. */
static bool is_crowded(int ranks) {
  hd_cpu_set set;
  return hd__openmp_unbound(&set) && hd__cpu_set_count(&set) < ranks;
}

/* A group without memory yet. */
static hd_status make(hd_group **out, hd_ctx *ctx, hd_local_group *local, int rank, int ranks) {
  hd_group *g = hd__calloc(1, sizeof *g);
  *out = g;
  HD_TRY(HD_ALLOCATED(g, ctx, "out of memory for a group of ranks"));
  g->process = hd__this_process();
  g->local = local;
  g->rank = rank;
  g->ranks = ranks;
  g->call_timeout_s = g->timeout_s = TIMEOUT_S;
  g->member = hd__calloc((size_t)ranks, sizeof *g->member);
  g->place = hd__calloc((size_t)ranks, sizeof *g->place);
  g->inputs = hd__calloc((size_t)ranks, sizeof *g->inputs);
  return HD_ALLOCATED(g->member && g->place && g->inputs, ctx, "out of memory for a group of %d ranks", ranks);
}

/* Numbers the members of each host, and finds the leader of this one. */
static void find_places(hd_group *g) {
  const hd_local_group *local = g->local;
  g->leader = -1;
  for (int r = 0; r < g->ranks; r++) {
    bool is_first = true;
    for (int other = 0; other < r; other++)
      if (hd__cluster_of(local, g->member[other]) == hd__cluster_of(local, g->member[r])) {
        g->place[r]++;
        is_first = false;
      }
    g->hosts += is_first;
    if (hd__cluster_of(local, g->member[r]) != hd__cluster_this_host(local))
      continue;
    g->leader = is_first ? r : g->leader;
    g->here++;
  }
}

static hd_status map_memory(hd_group *g, hd_ctx *ctx, int64_t block) {
  HD_TRY(hd__local_group_map(&g->memory, g->local, ctx, (int32_t)block, "a group of ranks"));
  lay_out(g, g->memory.base);
  g->crowded = is_crowded(g->here);
  hd__barrier_join(&g->barrier, g->line, g->here, g->crowded, &g->watch);
  return HD_OK;
}

/* The proposal of each rank for a new group or buffer. */
typedef struct proposal {
  int32_t block, tag; /* block: of a leader; tag: see gather_proposals */
  uint64_t arguments; /* a hash of the arguments: the same on all ranks */
  int64_t status;
  int64_t number; /* of the group, at least */
  int64_t cache;  /* the L3 cache of the rank */
} proposal;

static hd_status check_proposals(hd_ctx *ctx, const proposal *all, int ranks, const char *what) {
  for (int r = 1; r < ranks; r++)
    if (all[r].arguments != all[0].arguments)
      return hd__fail(ctx, HD_E_USAGE,
                      "expected all ranks to ask for the same %s, but rank %d asks for a different one than rank 0",
                      what, r);
  for (int r = 0; r < ranks; r++)
    if (all[r].status != HD_OK)
      return hd__local_group_no_block(ctx, (hd_status)all[r].status, what);
  return HD_OK;
}

/* Frees the block of this rank if all ranks know that none maps it: their arguments differ, or a host has no memory. */
static void withdraw(const hd_group *g, const proposal *proposed, const proposal *all, int ranks, hd_status status) {
  bool void_for_all = status == HD_E_USAGE;
  for (int r = 0; r < ranks; r++)
    void_for_all |= all[r].status != HD_OK;
  if (void_for_all && g->rank >= 0 && g->rank == g->leader && proposed->status == HD_OK)
    hd__local_group_release(g->local, proposed->block);
}

/* The proposal for a group: a leader allocates memory, and each rank of a group that spans hosts allocates tags. */
static proposal propose(hd_group *g, hd_ctx *ctx, uint64_t arguments) {
  proposal proposed = {
      .arguments = arguments, .number = hd__local_group_next_group(g->local), .cache = hd__local_group_cache(g->local)};
  if (g->rank >= 0 && g->hosts > 1)
    proposed.tag = g->tag = hd__cluster_take_tags(g->local, 0);
  if (g->rank >= 0 && g->rank == g->leader)
    proposed.status = hd__local_group_allocate(&proposed.block, g->local, ctx, lay_out(g, NULL), g->here);
  return proposed;
}

/* Whether all ranks of the group propose the same tag; the highest is in *most. `ranks`: the index in `all` of each
 * rank, NULL: its number. */
static bool is_settled(int32_t *most, const hd_group *g, const proposal *all, const int32_t *ranks) {
  int32_t least = HD_TRANSPORT_TAGS;
  *most = 0;
  for (int i = 0; i < g->ranks; i++) {
    const proposal *r = &all[ranks ? ranks[i] : i];
    *most = r->tag > *most ? r->tag : *most;
    least = r->tag < least ? r->tag : least;
  }
  return least == *most || *most == HD_TRANSPORT_TAGS;
}

/* All-gather of proposals over all ranks of the parent, NULL: of the run. Ranks of a group that spans hosts propose
 * the lowest tag that none of their groups uses, then the lowest from the highest of these on, until all propose the
 * same. A tag is reused when all ranks of its group have destroyed it; groups without a common rank may use the same
 * tag. */
static hd_status gather_proposals(proposal *all, hd_group *g, hd_group *parent, hd_ctx *ctx, proposal *proposed,
                                  const int32_t *ranks) {
  const int members = parent ? parent->ranks : g->ranks;
  int32_t most;
  for (;;) {
    HD_TRY(parent ? hd__group_gather_host(all, parent, ctx, proposed, sizeof *proposed)
                  : hd__cluster_gather(all, g->local, ctx, proposed, sizeof *proposed));
    HD_TRY(check_proposals(ctx, all, members, "a group"));
    if (is_settled(&most, g, all, ranks))
      break;
    if (g->rank < 0)
      continue;
    hd__cluster_free_tags(g->local, g->tag);
    proposed->tag = g->tag = hd__cluster_take_tags(g->local, most);
  }
  if (most == HD_TRANSPORT_TAGS)
    return hd__fail(
        ctx, HD_E_USAGE,
        "expected at most %d groups over several hosts at a time, found more; destroy groups that are no longer used",
        HD_CLUSTER_MOST_GROUPS);
  for (int r = 0; r < members; r++)
    g->number = all[r].number > g->number ? all[r].number : g->number;
  hd__local_group_set_next_group(g->local, g->number + 1);
  return HD_OK;
}

/* Sets up a barrier of two levels if the ranks of this host have several L3 caches; `all` and `ranks` as in
 * is_settled. */
static void join_caches(hd_group *g, const proposal *all, const int32_t *ranks) {
  for (int r = 0; r < g->ranks; r++)
    if (!hd__group_is_remote(g, r))
      hd__barrier_set_cache(g->line, g->place[r], (int)all[ranks ? ranks[r] : r].cache);
  hd__barrier_join_caches(&g->barrier);
}

/* ---- making and ending ---- */

static void release(hd_group *g) {
  if (!g)
    return;
  for (int i = 0; i < HD_GROUP_BUFFERS; i++)
    hd__segment_destroy(&g->buffer[i].map);
  hd__gpu_group_close(g->gpu);
  if (!g->has_parent && g->hosts > 1 && g->end && g->end->status == HD_E_TIMEOUT)
    hd__cluster_await_none(g->local);
  if (!g->end || atomic_load(&g->end->state) == HD_GROUP_RUNS) /* else transfers may still be running */
    hd__cluster_free_tags(g->local, g->tag);
  hd__segment_destroy(&g->memory);
  hd__free(g->member);
  hd__free(g->place);
  hd__free(g->inputs);
  if (g->owns_local_group)
    hd__local_group_leave(g->local);
  hd__free(g);
}

/* Maps the memory that the leader allocated; `all` and `ranks` as in gather_proposals. */
static hd_status map_proposed(hd_group *g, hd_ctx *ctx, const proposal *all, const int32_t *ranks) {
  HD_TRY(map_memory(g, ctx, all[ranks ? ranks[g->leader] : g->leader].block));
  join_caches(g, all, ranks);
  return HD_OK;
}

/* A call of all ranks of the parent, or of the run: so all ranks see it if a list of ranks differs. */
static hd_status share_memory(hd_group *g, hd_group *parent, hd_ctx *ctx, const int32_t *ranks, uint64_t arguments) {
  const int members = parent ? parent->ranks : g->ranks;
  proposal *all = hd__calloc((size_t)members, sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for a group of %d ranks", g->ranks));
  proposal proposed = propose(g, ctx, arguments);
  hd_status status = gather_proposals(all, g, parent, ctx, &proposed, ranks);
  if (status == HD_OK && g->rank >= 0)
    status = map_proposed(g, ctx, all, ranks);
  else if (status != HD_OK)
    withdraw(g, &proposed, all, members, status);
  hd__free(all);
  return status;
}

hd_status hd__group_of_ranks(hd_group **out, hd_ctx *ctx, hd_local_group *local, double timeout_s) {
  hd_group *g;
  hd_status status = make(&g, ctx, local, hd__cluster_rank(local), hd__cluster_ranks(local));
  for (int r = 0; status == HD_OK && r < g->ranks; r++)
    g->member[r] = r;
  if (status == HD_OK) {
    find_places(g);
    status = share_memory(g, NULL, ctx, NULL, 0);
  }
  if (status == HD_OK && timeout_s > 0)
    g->call_timeout_s = g->timeout_s = timeout_s;
  *out = g;
  return HD_CREATED(status, out, release);
}

static hd_status check_settings(hd_ctx *ctx, const hd_group_settings *s) {
  if ((unsigned)s->backend > HD_GROUP_NCCL)
    return hd__fail(ctx, HD_E_USAGE, "expected a backend of hd_group_backend, found %d", (int)s->backend);
  if ((unsigned)s->arithmetic > HD_ARITHMETIC_NATIVE)
    return hd__fail(ctx, HD_E_USAGE, "expected arithmetic portable or native, found %d", (int)s->arithmetic);
  if (!(s->timeout_s >= 0 && s->timeout_s <= 1e9))
    return hd__fail(ctx, HD_E_USAGE, "expected a timeout in seconds, 0 for %g, found %g", TIMEOUT_S, s->timeout_s);
  return HD_OK;
}

/* Ranks with GPUs use shared memory or MPI, depending on their hosts. */
static hd_way way_of(hd_group_backend backend) {
  return backend == HD_GROUP_SHM ? HD_WAY_SHM : backend == HD_GROUP_MPI ? HD_WAY_MPI : HD_WAY_ANY;
}

static hd_status open_gpus(hd_group **group, hd_ctx *ctx, const hd_group_settings *s) {
  if (s->backend != HD_GROUP_NCCL)
    return HD_OK;
  const hd_status status = hd__gpu_group_open(*group, ctx, s->arithmetic == HD_ARITHMETIC_NATIVE);
  return HD_CREATED(status, group, release);
}

hd_status hd_group_init(hd_group **out, hd_ctx *ctx, const hd_group_settings *settings) {
  hd_group_settings wanted = {.rank = -1, .world_size = -1};
  const hd_group_settings *s = &wanted;
  hd_local_group *local;
  *out = NULL;
  if (settings)
    HD_TRY(hd__struct_read(&wanted, ctx, settings, sizeof wanted, "hd_group_settings"));
  HD_TRY(check_settings(ctx, s));
  const double timeout_s = s->timeout_s > 0 ? s->timeout_s : TIMEOUT_S;
  const hd_rendezvous at = {s->init_method, s->rank, s->world_size, timeout_s};
  HD_TRY(hd__rendezvous(&local, ctx, way_of(s->backend), &at));
  hd__local_group_keep_process(local);
  const hd_status status = hd__group_of_ranks(out, ctx, local, timeout_s);
  if (status != HD_OK) {
    hd__local_group_leave(local);
    return status;
  }
  (*out)->owns_local_group = true;
  return open_gpus(out, ctx, s);
}

/* A hash of the list, which must be the same on all ranks. */
static uint64_t sum_of_list(const int32_t *ranks, int32_t count) {
  uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)count;
  for (int32_t i = 0; i < count; i++)
    sum = (sum ^ (uint64_t)ranks[i]) * UINT64_C(0x100000001b3);
  return sum;
}

static hd_status check_list(hd_ctx *ctx, const hd_group *parent, const int32_t *ranks, int32_t count) {
  if (count < 1 || count > parent->ranks || !ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected 1 to %d ranks for a group, found %d", parent->ranks, count);
  for (int32_t i = 0; i < count; i++) {
    if (ranks[i] < 0 || ranks[i] >= parent->ranks)
      return hd__fail(ctx, HD_E_USAGE, "expected ranks from 0 to %d, found %d", parent->ranks - 1, ranks[i]);
    for (int32_t j = 0; j < i; j++)
      if (ranks[j] == ranks[i])
        return hd__fail(ctx, HD_E_USAGE, "expected each rank once, found rank %d twice", ranks[i]);
  }
  return HD_OK;
}

static int place_in(const int32_t *ranks, int32_t count, int rank) {
  for (int32_t i = 0; i < count; i++)
    if (ranks[i] == rank)
      return i;
  return -1;
}

hd_status hd_group_new(hd_group **out, hd_group *parent, hd_ctx *ctx, const int32_t *ranks, int32_t count) {
  hd_group *g = NULL;
  *out = NULL;
  HD_TRY(hd__group_check_process(parent, ctx));
  const hd_status sound = check_list(ctx, parent, ranks, count);
  if (sound != HD_OK) { /* the others wait: an invalid call makes theirs fail */
    hd_group_all_gather(NULL, parent, NULL, NULL, -1, HD_U8);
    return sound;
  }
  hd__work_queue_drain(parent->work_queue);
  hd_status status = make(&g, ctx, parent->local, place_in(ranks, count, parent->rank), count);
  for (int32_t i = 0; status == HD_OK && i < count; i++)
    g->member[i] = parent->member[ranks[i]];
  if (status == HD_OK) {
    g->has_parent = true;
    g->call_timeout_s = g->timeout_s = parent->timeout_s;
    find_places(g);
    status = share_memory(g, parent, ctx, ranks, sum_of_list(ranks, count));
  }
  if (status == HD_OK && g->rank >= 0 && parent->gpu)
    status = hd__gpu_group_open(g, ctx, hd__gpu_group_is_native(parent->gpu));
  if (status != HD_OK || g->rank < 0)
    release(g);
  else
    *out = g;
  return status;
}

void hd_group_give_up(hd_group *g, const char *why) {
  if (g && hd__group_check_process(g, NULL) == HD_OK)
    hd__local_group_give_up(g->local, why);
}

void hd_group_destroy(hd_group *g) {
  if (!g || hd__group_check_process(g, NULL) != HD_OK) /* a child's copy lasts as long as the child */
    return;
  hd__work_queue_destroy(g->work_queue);
  release(g);
}

int32_t hd_group_rank(const hd_group *g) { return g ? g->rank : 0; }

int32_t hd_group_size(const hd_group *g) { return g ? g->ranks : 1; }

hd_local_group *hd__group_local(const hd_group *g) { return g ? g->local : NULL; }

bool hd__group_is_whole(const hd_group *g) {
  bool whole = !g || g->ranks == hd__cluster_ranks(g->local);
  for (int r = 0; g && r < g->ranks; r++)
    whole &= g->member[r] == r;
  return whole;
}

/* ---- buffers ---- */

static hd_group_buffer *free_buffer(hd_group *g) {
  for (int i = 0; i < HD_GROUP_BUFFERS; i++)
    if (g->buffer[i].number == 0)
      return &g->buffer[i];
  return NULL;
}

static hd_status share_buffer(hd_group_buffer *b, hd_group *g, hd_ctx *ctx, size_t bytes) {
  proposal proposed = {.arguments = bytes}, *all = hd__calloc((size_t)g->ranks, sizeof *all);
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for a buffer of the group"));
  const size_t stride = hd__segment_bytes(bytes);
  if (g->rank == g->leader)
    proposed.status = hd__local_group_allocate(&proposed.block, g->local, ctx, stride * (size_t)g->here, g->here);
  hd_status status = hd_group_all_gather(all, g, ctx, &proposed, sizeof proposed, HD_U8);
  HD_THEN(status, check_proposals(ctx, all, g->ranks, "a buffer"));
  if (status == HD_OK)
    status = hd__local_group_map(&b->map, g->local, ctx, all[g->leader].block, "a buffer of the group");
  else
    withdraw(g, &proposed, all, g->ranks, status);
  b->stride = stride;
  b->number = status == HD_OK ? 1 + (uint32_t)all[g->leader].block : 0;
  hd__free(all);
  return status;
}

hd_status hd_group_alloc(void **out, hd_group *g, hd_ctx *ctx, size_t bytes) {
  *out = NULL;
  HD_TRY(hd__group_check_process(g, ctx));
  if (g->gpu)
    return hd__gpu_group_alloc(out, g, ctx, bytes);
  hd_group_buffer *b = free_buffer(g), made = {0};
  if (!b || bytes > (SIZE_MAX >> 24)) {
    hd_group_all_gather(NULL, g, NULL, NULL, -1, HD_U8);
    return hd__fail(ctx, HD_E_USAGE,
                    "a group has at most %d buffers at a time, all within the memory of the host; free some",
                    HD_GROUP_BUFFERS);
  }
  HD_TRY(share_buffer(&made, g, ctx, bytes));
  *b = made;
  g->buffers++;
  *out = (char *)made.map.base + (size_t)g->place[g->rank] * made.stride;
  return HD_OK;
}

hd_status hd_group_upload(void *to, hd_group *g, hd_ctx *ctx, const void *from, size_t bytes) {
  if (g->gpu)
    return hd__gpu_group_copy(g, ctx, to, (void *)(uintptr_t)from, bytes, true);
  memcpy(to, from, bytes);
  return HD_OK;
}

hd_status hd_group_download(void *to, hd_group *g, hd_ctx *ctx, const void *from, size_t bytes) {
  if (g->gpu)
    return hd__gpu_group_copy(g, ctx, (void *)(uintptr_t)from, to, bytes, false);
  memcpy(to, from, bytes);
  return HD_OK;
}

void hd_group_free(hd_group *g, void *memory) {
  if (hd__group_check_process(g, NULL) != HD_OK) /* a child's copy lasts as long as the child */
    return;
  if (g->gpu) {
    hd__gpu_group_free(g, memory);
    return;
  }
  for (int i = 0; memory && i < HD_GROUP_BUFFERS; i++) {
    hd_group_buffer *b = &g->buffer[i];
    if (b->number == 0 || memory != (char *)b->map.base + (size_t)g->place[g->rank] * b->stride)
      continue;
    const int64_t stride = (int64_t)b->stride;
    hd__memory_file_free(b->map.fd, b->map.offset + g->place[g->rank] * stride, stride);
    hd__segment_destroy(&b->map);
    *b = (hd_group_buffer){0};
    g->buffers--;
  }
}
