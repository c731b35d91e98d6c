/* Groups: making and ending them, their memory, and how they come to their end. See group.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/group.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "comm/desk.h"
#include "comm/gpu_group.h"
#include "comm/hosts.h"
#include "comm/message.h"
#include "comm/rendezvous.h"
#include "sys/cpu_set.h"

enum { MOST_SLOT_BYTES = 256 << 10, LEAST_SLOT_BYTES = 16 << 10, ALL_SLOT_BYTES = 64 << 20, PAGE_BYTES = 4096 };
enum { LINE_BYTES = 128 };

static const double TIMEOUT_S = 1800;

/* ---- its end ---- */

void hd__group_break(hd_group *g, hd_status status, const char *format, ...) {
  unsigned runs = HD_GROUP_RUNS;
  if (!atomic_compare_exchange_strong(&g->end->state, &runs, HD_GROUP_ENDING))
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(g->end->text, sizeof g->end->text, format, args);
  va_end(args);
  g->end->status = status;
  atomic_store(&g->end->state, HD_GROUP_ENDED);
}

hd_status hd__group_check(hd_group *g, hd_ctx *ctx) {
  HD_TRY(hd__world_check(g->world, ctx));
  if (atomic_load(&g->end->state) == HD_GROUP_RUNS)
    return HD_OK;
  while (atomic_load(&g->end->state) == HD_GROUP_ENDING && hd__world_check(g->world, ctx) == HD_OK)
    sched_yield();
  return hd__fail(ctx, (hd_status)g->end->status, "%s", g->end->text);
}

void hd__group_look(hd_group *g, int rank) {
  hd__hosts_listen(g->world);
  if (hd__world_check(g->world, NULL) != HD_OK)
    hd__group_break(g, HD_E_PEER, "the group lost a rank");
  else if (!hd__group_is_far(g, rank) &&
           hd__world_view(g->world, hd__hosts_local(g->world, g->member[rank])).state == HD_RANK_LEFT)
    hd__group_break(g, HD_E_PEER,
                    "expected rank %d at a call, found that it has left the group; do all ranks make the "
                    "same calls?",
                    rank);
}

static void not_come(hd_group *g, int64_t waited_ns) {
  char missing[160] = "";
  const unsigned number = atomic_load(&g->meeting.line[g->place[g->rank]].came);
  int count = 0;
  for (int r = 0; r < g->ranks; r++) {
    const size_t at = strlen(missing);
    if (!hd__group_is_far(g, r) && (int)(atomic_load(&g->meeting.line[g->place[r]].came) - number) < 0 && count++ < 16)
      snprintf(missing + at, sizeof missing - at, "%s%d", at ? ", " : "", r);
  }
  hd__group_break(
      g, HD_E_TIMEOUT,
      "expected all ranks at a call within %g s, found that rank%s %s%s did not come, while rank %d waited; "
      "do all ranks make the same calls? If so, raise the timeout",
      g->patience_s, count == 1 ? "" : "s", missing, count > 16 ? ", ..." : "", g->rank);
}

bool hd__group_is_far(const hd_group *g, int rank) {
  return g->hosts > 1 && hd__hosts_of(g->world, g->member[rank]) != hd__hosts_mine(g->world);
}

/* The meeting calls it now and then, while this rank sleeps. The first of a host waits for other hosts, too, and says
 * so. */
static void late(void *self, int place, int64_t waited_ns) {
  const double more_s = 2;
  hd_group *g = self;
  int rank = 0;
  while (hd__group_is_far(g, rank) || g->place[rank] != place)
    rank++;
  hd__group_look(g, rank);
  if ((double)waited_ns > 1e9 * (g->patience_s + (g->hosts > 1 && rank == g->leader ? more_s : 0)))
    not_come(g, waited_ns);
}

/* ---- its memory ---- */

/* Where the parts lie; returns the size. */
static size_t lay_out(hd_group *g, char *base) {
  const size_t n = (size_t)g->ranks, lines = (sizeof(hd_group_end) / LINE_BYTES + 1) * LINE_BYTES;
  const size_t notes = lines + (size_t)HD_MEETING_LINES(g->here) * sizeof(hd_meeting_line);
  const size_t bells = notes + (g->hosts > 1 ? (2 * n * HD_MEETING_NOTE_BYTES / LINE_BYTES + 1) * LINE_BYTES : 0);
  const size_t slots = (bells + hd__bells_bytes(g->ranks) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  size_t slot = MOST_SLOT_BYTES;
  while (slot > LEAST_SLOT_BYTES && slot > LINE_BYTES * n && slot * 4 * n > ALL_SLOT_BYTES)
    slot /= 2; /* a line for each rank fits into any */
  g->slot_bytes = slot;
  g->result_bytes = (slot / n / LINE_BYTES + 2) * LINE_BYTES;
  g->stride = (2 * (g->slot_bytes + g->result_bytes) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  const size_t boxes = slots + n * g->stride;
  if (base) {
    g->end = (hd_group_end *)base;
    g->line = (hd_meeting_line *)(base + lines);
    g->notes = base + notes;
    g->bell = (hd_bell *)(base + bells);
    g->slots = base + slots;
    g->boxes = base + boxes;
    g->watch = (hd_meeting_watch){.broken = &g->end->state, .late = late, .self = g};
  }
  return boxes + hd__boxes_bytes(&g->fragment_bytes, g->ranks);
}

/* More ranks than CPUs: nobody looks out for long. */
static bool is_crowded(int ranks) {
  hd_cpu_set set;
  return hd__cpu_set_read(&set) && hd__cpu_set_count(&set) < ranks;
}

/* A group without memory yet. */
static hd_status make(hd_group **out, hd_ctx *ctx, hd_world *world, int rank, int ranks) {
  hd_group *g = hd__calloc(1, sizeof *g);
  *out = g;
  if (!g)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a group of ranks");
  g->world = world;
  g->rank = rank;
  g->ranks = ranks;
  g->patience_s = g->timeout_s = TIMEOUT_S;
  g->member = hd__calloc((size_t)ranks, sizeof *g->member);
  g->place = hd__calloc((size_t)ranks, sizeof *g->place);
  g->inputs = hd__calloc((size_t)ranks, sizeof *g->inputs);
  return g->member && g->place && g->inputs ? HD_OK
                                            : hd__fail(ctx, HD_E_NOMEM, "out of memory for a group of %d ranks", ranks);
}

/* Who of its members lives with whom. */
static void find_places(hd_group *g) {
  const hd_world *world = g->world;
  g->leader = -1;
  for (int r = 0; r < g->ranks; r++) {
    bool is_first = true;
    for (int other = 0; other < r; other++)
      if (hd__hosts_of(world, g->member[other]) == hd__hosts_of(world, g->member[r])) {
        g->place[r]++;
        is_first = false;
      }
    g->hosts += is_first;
    if (hd__hosts_of(world, g->member[r]) != hd__hosts_mine(world))
      continue;
    g->leader = is_first ? r : g->leader;
    g->here++;
  }
}

static hd_status map_memory(hd_group *g, hd_ctx *ctx, int64_t piece) {
  HD_TRY(hd__world_map(&g->memory, g->world, ctx, (int32_t)piece, "a group of ranks"));
  lay_out(g, g->memory.base);
  g->crowded = is_crowded(g->here);
  hd__meeting_join(&g->meeting, g->line, g->here, g->crowded, &g->watch);
  return HD_OK;
}

/* Who makes room says so to those who share it. */
typedef struct room {
  int32_t piece, tag; /* tag: that this rank would have, see gather_rooms */
  uint64_t wants;     /* what for: the same on all ranks */
  int64_t status;
  int64_t number; /* of the group, at least */
  int64_t cache;  /* that it lives under */
} room;

static hd_status read_room(hd_ctx *ctx, const room *all, int ranks, const char *what) {
  for (int r = 1; r < ranks; r++)
    if (all[r].wants != all[0].wants)
      return hd__fail(ctx, HD_E_USAGE,
                      "expected all ranks to ask for the same %s, found that rank %d asks for another "
                      "one than rank 0",
                      what, r);
  for (int r = 0; r < ranks; r++)
    if (all[r].status != HD_OK)
      return hd__world_no_piece(ctx, (hd_status)all[r].status, what);
  return HD_OK;
}

/* What this rank took goes back where all know that nobody comes to it: they ask for different things, or another host
 * has no room. */
static void give_back_room(const hd_group *g, const room *mine, const room *all, int ranks, hd_status status) {
  bool void_for_all = status == HD_E_USAGE;
  for (int r = 0; r < ranks; r++)
    void_for_all |= all[r].status != HD_OK;
  if (void_for_all && g->rank >= 0 && g->rank == g->leader && mine->status == HD_OK)
    hd__world_untake(g->world, mine->piece);
}

/* What to say of a group: its leader takes memory, and each of its ranks tags, where the group spans hosts. */
static room make_room(hd_group *g, hd_ctx *ctx, uint64_t wants) {
  room mine = {.wants = wants, .number = hd__world_next_group(g->world), .cache = hd__world_cache(g->world)};
  if (g->rank >= 0 && g->hosts > 1)
    mine.tag = g->tag = hd__hosts_take_tags(g->world, 0);
  if (g->rank >= 0 && g->rank == g->leader)
    mine.status = hd__world_take(&mine.piece, g->world, ctx, lay_out(g, NULL), g->here);
  return mine;
}

/* Whether all of the group name the same tag; the highest is in *most. `all` are in the order of `ranks`, NULL: of its
 * own. */
static bool is_settled(int32_t *most, const hd_group *g, const room *all, const int32_t *ranks) {
  int32_t least = HD_TRANSPORT_TAGS;
  *most = 0;
  for (int i = 0; i < g->ranks; i++) {
    const room *r = &all[ranks ? ranks[i] : i];
    *most = r->tag > *most ? r->tag : *most;
    least = r->tag < least ? r->tag : least;
  }
  return least == *most || *most == HD_TRANSPORT_TAGS;
}

/* All ranks of the parent, NULL: of the world, tell each other what they have. Those of a group that spans hosts name
 * the lowest tag that none of their groups has, and then the lowest from the highest of these on, until all name one: a
 * tag comes again when all ranks of its group have destroyed it, and ranks that are in none together may use the
 * same. */
static hd_status gather_rooms(room *all, hd_group *g, hd_group *parent, hd_ctx *ctx, room *mine, const int32_t *ranks) {
  const int asked = parent ? parent->ranks : g->ranks;
  int32_t most;
  for (;;) {
    HD_TRY(parent ? hd__group_gather_host(all, parent, ctx, mine, sizeof *mine)
                  : hd__hosts_gather(all, g->world, ctx, mine, sizeof *mine));
    HD_TRY(read_room(ctx, all, asked, "a group"));
    if (is_settled(&most, g, all, ranks))
      break;
    if (g->rank < 0)
      continue;
    hd__hosts_give_tags(g->world, g->tag);
    mine->tag = g->tag = hd__hosts_take_tags(g->world, most);
  }
  if (most == HD_TRANSPORT_TAGS)
    return hd__fail(ctx, HD_E_USAGE,
                    "expected at most %d groups over several hosts at a time, found more; destroy those that are done "
                    "with",
                    HD_HOSTS_MOST_GROUPS);
  for (int r = 0; r < asked; r++)
    g->number = all[r].number > g->number ? all[r].number : g->number;
  hd__world_set_next_group(g->world, g->number + 1);
  return HD_OK;
}

/* Ranks meet by caches, where those of this host live under several; `all` are their ranks' in the order of `ranks`,
 * NULL: in that of the group. */
static void join_caches(hd_group *g, const room *all, const int32_t *ranks) {
  for (int r = 0; r < g->ranks; r++)
    if (!hd__group_is_far(g, r))
      hd__meeting_live(g->line, g->place[r], (int)all[ranks ? ranks[r] : r].cache);
  hd__meeting_join_caches(&g->meeting);
}

/* ---- making and ending ---- */

static void release(hd_group *g) {
  if (!g)
    return;
  for (int i = 0; i < HD_GROUP_BUFFERS; i++)
    hd__segment_destroy(&g->buffer[i].map);
  hd__gpu_group_close(g->gpu);
  if (!g->end || atomic_load(&g->end->state) == HD_GROUP_RUNS) /* else something may still be on its way */
    hd__hosts_give_tags(g->world, g->tag);
  hd__segment_destroy(&g->memory);
  hd__free(g->member);
  hd__free(g->place);
  hd__free(g->inputs);
  if (g->owns_world)
    hd__world_leave(g->world);
  hd__free(g);
}

/* Comes to the memory that its leader took; `all` and `ranks` as in gather_rooms. */
static hd_status enter_room(hd_group *g, hd_ctx *ctx, const room *all, const int32_t *ranks) {
  HD_TRY(map_memory(g, ctx, all[ranks ? ranks[g->leader] : g->leader].piece));
  join_caches(g, all, ranks);
  return HD_OK;
}

/* All ranks of the parent, or of the world: a list of ranks that is wrong, and so differs, is known to all. */
static hd_status share_room(hd_group *g, hd_group *parent, hd_ctx *ctx, const int32_t *ranks, uint64_t wants) {
  const int asked = parent ? parent->ranks : g->ranks;
  room *all = hd__calloc((size_t)asked, sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a group of %d ranks", g->ranks);
  room mine = make_room(g, ctx, wants);
  hd_status status = gather_rooms(all, g, parent, ctx, &mine, ranks);
  if (status == HD_OK && g->rank >= 0)
    status = enter_room(g, ctx, all, ranks);
  else if (status != HD_OK)
    give_back_room(g, &mine, all, asked, status);
  hd__free(all);
  return status;
}

hd_status hd__group_of_world(hd_group **out, hd_ctx *ctx, hd_world *world, double timeout_s) {
  hd_group *g;
  hd_status status = make(&g, ctx, world, hd__hosts_rank(world), hd__hosts_ranks(world));
  for (int r = 0; status == HD_OK && r < g->ranks; r++)
    g->member[r] = r;
  if (status == HD_OK) {
    find_places(g);
    status = share_room(g, NULL, ctx, NULL, 0);
  }
  if (status == HD_OK && timeout_s > 0)
    g->patience_s = g->timeout_s = timeout_s;
  if (status != HD_OK)
    release(g);
  *out = status == HD_OK ? g : NULL;
  return status;
}

static hd_status check_settings(hd_ctx *ctx, const hd_group_settings *s) {
  if (s->backend && strcmp(s->backend, "shm") && strcmp(s->backend, "mpi") && strcmp(s->backend, "nccl"))
    return hd__fail(ctx, HD_E_USAGE, "expected backend shm, mpi or nccl, found '%.60s'", s->backend);
  if (s->arithmetic && strcmp(s->arithmetic, "portable") && strcmp(s->arithmetic, "native"))
    return hd__fail(ctx, HD_E_USAGE, "expected arithmetic portable or native, found '%.60s'", s->arithmetic);
  if (!(s->timeout_s >= 0 && s->timeout_s <= 1e9))
    return hd__fail(ctx, HD_E_USAGE, "expected a timeout in seconds, 0 for %g, found %g", TIMEOUT_S, s->timeout_s);
  return HD_OK;
}

/* GPUs meet as their ranks do, wherever those are. */
static hd_way way_of(const char *backend) {
  if (!backend || !strcmp(backend, "nccl"))
    return HD_WAY_ANY;
  return strcmp(backend, "mpi") ? HD_WAY_SHM : HD_WAY_MPI;
}

static hd_status open_gpus(hd_group **group, hd_ctx *ctx, const hd_group_settings *s) {
  if (!s->backend || strcmp(s->backend, "nccl"))
    return HD_OK;
  const hd_status status = hd__gpu_group_open(*group, ctx, s->arithmetic && !strcmp(s->arithmetic, "native"));
  if (status == HD_OK)
    return HD_OK;
  release(*group);
  *group = NULL;
  return status;
}

hd_status hd_group_init(hd_group **out, hd_ctx *ctx, const hd_group_settings *settings) {
  static const hd_group_settings usual = {.rank = -1, .world_size = -1};
  const hd_group_settings *s = settings ? settings : &usual;
  hd_world *world;
  *out = NULL;
  HD_TRY(check_settings(ctx, s));
  const double timeout_s = s->timeout_s > 0 ? s->timeout_s : TIMEOUT_S;
  const hd_way way = way_of(s->backend);
  HD_TRY(hd__rendezvous(&world, ctx, way, s->init_method, s->rank, s->world_size, timeout_s));
  hd__world_keep_process(world);
  const hd_status status = hd__group_of_world(out, ctx, world, timeout_s);
  if (status != HD_OK) {
    hd__world_leave(world);
    return status;
  }
  (*out)->owns_world = true;
  return open_gpus(out, ctx, s);
}

/* Everybody's list must be the same. */
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
  const hd_status sound = check_list(ctx, parent, ranks, count);
  if (sound != HD_OK) { /* the others wait: a call that they do not make tells them */
    hd_group_all_gather(NULL, parent, NULL, NULL, -1, HD_U8);
    return sound;
  }
  hd_status status = make(&g, ctx, parent->world, place_in(ranks, count, parent->rank), count);
  for (int32_t i = 0; status == HD_OK && i < count; i++)
    g->member[i] = parent->member[ranks[i]];
  if (status == HD_OK) {
    g->patience_s = g->timeout_s = parent->timeout_s;
    find_places(g);
    status = share_room(g, parent, ctx, ranks, sum_of_list(ranks, count));
  }
  if (status == HD_OK && g->rank >= 0 && parent->gpu)
    status = hd__gpu_group_open(g, ctx, hd__gpu_group_is_native(parent->gpu));
  if (status != HD_OK || g->rank < 0)
    release(g);
  else
    *out = g;
  return status;
}

void hd_group_destroy(hd_group *g) {
  if (!g)
    return;
  hd__desk_destroy(g->desk);
  release(g);
}

int32_t hd_group_rank(const hd_group *g) { return g ? g->rank : 0; }

int32_t hd_group_size(const hd_group *g) { return g ? g->ranks : 1; }

hd_world *hd__group_world(const hd_group *g) { return g ? g->world : NULL; }

/* ---- buffers ---- */

static hd_group_buffer *free_buffer(hd_group *g) {
  for (int i = 0; i < HD_GROUP_BUFFERS; i++)
    if (g->buffer[i].number == 0)
      return &g->buffer[i];
  return NULL;
}

static hd_status share_buffer(hd_group_buffer *b, hd_group *g, hd_ctx *ctx, size_t bytes) {
  room mine = {.wants = bytes}, *all = hd__calloc((size_t)g->ranks, sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for a buffer of the group");
  const size_t stride = hd__segment_bytes(bytes);
  if (g->rank == g->leader)
    mine.status = hd__world_take(&mine.piece, g->world, ctx, stride * (size_t)g->here, g->here);
  hd_status status = hd_group_all_gather(all, g, ctx, &mine, sizeof mine, HD_U8);
  if (status == HD_OK)
    status = read_room(ctx, all, g->ranks, "a buffer");
  if (status == HD_OK)
    status = hd__world_map(&b->map, g->world, ctx, all[g->leader].piece, "a buffer of the group");
  else
    give_back_room(g, &mine, all, g->ranks, status);
  b->stride = stride;
  hd__free(all);
  return status;
}

hd_status hd_group_alloc(void **out, hd_group *g, hd_ctx *ctx, size_t bytes) {
  if (g->gpu)
    return hd__gpu_group_alloc(out, g, ctx, bytes);
  hd_group_buffer *b = free_buffer(g), made = {0};
  *out = NULL;
  if (!b || g->buffers_made == UINT16_MAX || bytes > (SIZE_MAX >> 24)) {
    hd_group_all_gather(NULL, g, NULL, NULL, -1, HD_U8);
    return hd__fail(ctx, HD_E_USAGE,
                    "expected at most %d buffers of a group at a time, of a size that there is; free "
                    "some",
                    HD_GROUP_BUFFERS);
  }
  HD_TRY(share_buffer(&made, g, ctx, bytes));
  made.number = ++g->buffers_made;
  *b = made;
  *out = (char *)made.map.base + (size_t)g->place[g->rank] * made.stride;
  return HD_OK;
}

hd_status hd_group_upload(void *to, hd_group *g, hd_ctx *ctx, const void *from, size_t bytes) {
  if (g->gpu)
    return hd__gpu_group_upload(g, ctx, to, from, bytes);
  memcpy(to, from, bytes);
  return HD_OK;
}

hd_status hd_group_download(void *to, hd_group *g, hd_ctx *ctx, const void *from, size_t bytes) {
  if (g->gpu)
    return hd__gpu_group_download(g, ctx, to, from, bytes);
  memcpy(to, from, bytes);
  return HD_OK;
}

void hd_group_free(hd_group *g, void *memory) {
  if (g->gpu) {
    hd__gpu_group_free(g, memory);
    return;
  }
  for (int i = 0; memory && i < HD_GROUP_BUFFERS; i++) {
    hd_group_buffer *b = &g->buffer[i];
    if (b->number == 0 || memory != (char *)b->map.base + (size_t)g->place[g->rank] * b->stride)
      continue;
    fallocate(b->map.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)b->map.offset + (off_t)g->place[g->rank] * (off_t)b->stride, (off_t)b->stride);
    hd__segment_destroy(&b->map);
    *b = (hd_group_buffer){0};
  }
}
