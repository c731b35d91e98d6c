/* The memory file of a world, joining it, and what all ranks do together; see world.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm/hosts.h"
#include "comm/watch.h"
#include "heddle/topology.h"
#include "sys/clock.h"
#include "sys/cpu_set.h"
#include "sys/process.h"
#include "sys/spawn.h"

#define WORLD_MAGIC UINT64_C(0x646c726f77646468) /* "hddworld" */

enum { WORLD_VERSION = 3 };

static const double PATIENCE_S = 60;

typedef struct world_slot {
  _Alignas(128) atomic_int state;
  int32_t pid;
  uint64_t start;
  _Atomic int64_t step;
} world_slot;

typedef struct world_place { /* in the exchange */
  uint32_t bytes;
  _Alignas(8) char data[HD_WORLD_GATHER_BYTES];
} world_place;

/* A part of the file. */
typedef struct world_piece {
  atomic_int held;      /* HELD_BY(so many ranks); FREE; or TAKING: somebody is about to */
  int64_t offset, room; /* room: of it all; NO_ROOM: the file could not grow for it */
  int64_t bytes;        /* that were asked for */
  uint64_t number;      /* later pieces have higher ones */
  char name[HD_WORLD_NAME_BYTES];
} world_piece;

enum { TAKING = -1, FREE = 0, NO_ROOM = -1 };
#define HELD_BY(ranks) ((ranks) + 1) /* 1: the last one gives it back */

typedef struct world_head {
  _Atomic uint64_t magic;
  int32_t version, ranks, parent; /* parent: pid, 0: none */
  uint64_t parent_start;
  atomic_uint joined; /* a futex word */
  hd_fault_box box;
  _Atomic int64_t used;   /* of the file */
  atomic_int pieces;      /* that there ever were */
  _Atomic uint64_t taken; /* how often one was */
} world_head;

struct hd_world {
  int fd, rank, ranks;
  hd_segment map;
  world_head *head;
  world_slot *slot;
  world_place *place;
  world_piece *piece;
  hd_meeting meeting;
  hd_meeting_watch meeting_watch;
  hd_watch *watch; /* NULL: nobody looks after the others */
  uint64_t gathers;
  double patience_s;
  int64_t next_group;
  int cache; /* -2: not looked up yet */
  _Atomic(hd_hosts *) hosts;
  char host[HD_FAULT_HOST_BYTES];
};

/* Where the parts of the head's memory begin; returns its size. */
static size_t lay_out(hd_world *w, char *base, int ranks) {
  size_t slots = (sizeof(world_head) + 127) / 128 * 128, lines = slots + (size_t)ranks * sizeof(world_slot);
  size_t places = lines + (size_t)HD_MEETING_LINES(ranks) * sizeof(hd_meeting_line);
  size_t pieces = places + 2 * (size_t)ranks * sizeof(world_place);
  if (base) {
    w->head = (world_head *)base;
    w->slot = (world_slot *)(base + slots);
    w->place = (world_place *)(base + places);
    w->piece = (world_piece *)(base + pieces);
    w->meeting_watch = (hd_meeting_watch){.broken = &w->head->box.state};
    hd__meeting_join(&w->meeting, (hd_meeting_line *)(base + lines), ranks, 1, &w->meeting_watch);
  }
  return pieces + HD_WORLD_PIECES * sizeof(world_piece);
}

static void late_for_meeting(void *self, int rank, int64_t waited_ns) { hd__world_late(self, rank, waited_ns); }

static hd_status make(hd_world **out, hd_ctx *ctx) {
  *out = NULL;
  hd_world *w = hd__calloc(1, sizeof *w);
  if (!w)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the ranks' world");
  w->fd = w->rank = -1;
  w->patience_s = PATIENCE_S;
  w->cache = -2;
  if (gethostname(w->host, sizeof w->host - 1) != 0)
    snprintf(w->host, sizeof w->host, "this host");
  *out = w;
  return HD_OK;
}

static void release(hd_world *w) {
  hd__segment_destroy(&w->map);
  if (w->fd >= 0)
    close(w->fd);
  hd__free(w);
}

static hd_status no_memory_file(hd_ctx *ctx) {
  return hd__fail(ctx, HD_E_SYSTEM, "expected a memory file for the ranks to share, found: %s", strerror(errno));
}

/* Maps the head of a world of `ranks`, and knows where its parts are. */
static hd_status map_head(hd_world *w, hd_ctx *ctx, int ranks) {
  HD_TRY(hd__segment_map(&w->map, ctx, w->fd, 0, lay_out(w, NULL, ranks), "the ranks' world"));
  lay_out(w, w->map.base, ranks);
  w->ranks = ranks;
  w->meeting_watch.self = w;
  w->meeting_watch.late = late_for_meeting;
  return HD_OK;
}

static hd_status found(hd_world *w, hd_ctx *ctx, int ranks, bool parented) {
  const int64_t size =
      (int64_t)((lay_out(w, NULL, ranks) + HD_SEGMENT_ALIGN - 1) / HD_SEGMENT_ALIGN * HD_SEGMENT_ALIGN);
  w->fd = memfd_create("heddle-world", MFD_CLOEXEC);
  if (w->fd < 0 || ftruncate(w->fd, (off_t)size) != 0)
    return no_memory_file(ctx);
  HD_TRY(map_head(w, ctx, ranks));
  w->head->version = WORLD_VERSION;
  w->head->ranks = ranks;
  atomic_store(&w->head->used, size);
  if (parented) {
    w->head->parent = (int32_t)getpid();
    w->head->parent_start = hd__process_start(0);
  }
  for (int r = 0; r < ranks; r++)
    atomic_store(&w->slot[r].step, -1);
  atomic_store_explicit(&w->head->magic, WORLD_MAGIC, memory_order_release);
  return HD_OK;
}

hd_status hd__world_found(hd_world **out, hd_ctx *ctx, int ranks, bool parented) {
  *out = NULL;
  if (ranks < 1 || ranks > HD_WORLD_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected 1 to %d ranks, found %d", HD_WORLD_MOST_RANKS, ranks);
  hd_world *w;
  HD_TRY(make(&w, ctx));
  hd_status status = found(w, ctx, ranks, parented);
  if (status == HD_OK)
    *out = w;
  else
    release(w);
  return status;
}

/* The descriptor must be that of a world: it may come from an environment that somebody else left. */
static hd_status read_head(int *ranks, hd_ctx *ctx, int fd) {
  world_head head;
  if (pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head && head.magic == WORLD_MAGIC &&
      head.version == WORLD_VERSION && head.ranks >= 1 && head.ranks <= HD_WORLD_MOST_RANKS) {
    *ranks = head.ranks;
    return HD_OK;
  }
  return hd__fail(ctx, HD_E_USAGE,
                  "expected the memory of the ranks at descriptor %d, found another file or none; start the ranks with "
                  "`heddle launch` of this version, and let them keep their descriptors",
                  fd);
}

static hd_status take_slot(hd_world *w, hd_ctx *ctx, int rank) {
  int absent = HD_RANK_ABSENT;
  if (rank < 0 || rank >= w->ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected a rank from 0 to %d, found %d", w->ranks - 1, rank);
  world_slot *slot = &w->slot[rank];
  if (!atomic_compare_exchange_strong(&slot->state, &absent, HD_RANK_JOINING))
    return hd__fail(ctx, HD_E_USAGE,
                    "expected rank %d to be free, found it taken by pid %d; give each rank its own number", rank,
                    slot->pid);
  slot->pid = (int32_t)getpid();
  slot->start = hd__process_start(0);
  w->rank = rank;
  atomic_store(&slot->state, HD_RANK_JOINED);
  atomic_fetch_add(&w->head->joined, 1);
  syscall(SYS_futex, &w->head->joined, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
  return HD_OK;
}

/* Before anybody watches: a rank that joined and ended, or a parent that did. */
static void look_for_losses(hd_world *w) {
  const world_head *head = w->head;
  if (head->parent && hd__process_look(head->parent, head->parent_start).has_ended)
    hd__world_break(w, &(hd_fault){.kind = HD_FAULT_PARENT, .pid = head->parent, .step = -1});
  for (int r = 0; r < w->ranks; r++) {
    hd_rank_view view = hd__world_view(w, r);
    if (view.state != HD_RANK_JOINED)
      continue;
    const hd_process_look look = hd__process_look(view.pid, view.start);
    hd_fault fault = {.kind = HD_FAULT_GONE, .rank = r, .pid = view.pid, .step = view.step};
    if (look.knows_end)
      hd__fault_of_end(&fault, look.end);
    if (look.has_ended)
      hd__world_break(w, &fault);
  }
}

static hd_status nobody_came(const hd_world *w, hd_ctx *ctx, double timeout_s) {
  char missing[160] = "";
  int count = 0;
  for (int r = 0; r < w->ranks; r++) {
    if (atomic_load(&w->slot[r].state) != HD_RANK_ABSENT)
      continue;
    const size_t at = strlen(missing);
    if (count++ < 16)
      snprintf(missing + at, sizeof missing - at, "%s%d", at ? ", " : "", r);
  }
  return hd__fail(ctx, HD_E_TIMEOUT, "expected %d ranks to join within %g s, rank%s %s%s did not; were all started?",
                  w->ranks, timeout_s, count == 1 ? "" : "s", missing, count > 16 ? ", ..." : "");
}

static hd_status wait_for_all(hd_world *w, hd_ctx *ctx, double timeout_s) {
  const struct timespec look = {.tv_nsec = HD_MEETING_LOOK_MS * 1000000L};
  const double begin_s = hd__clock_s();
  unsigned joined;
  while ((int)(joined = atomic_load(&w->head->joined)) < w->ranks) {
    syscall(SYS_futex, &w->head->joined, FUTEX_WAIT, joined, &look, NULL, 0);
    look_for_losses(w);
    HD_TRY(hd__world_check(w, ctx));
    if (hd__clock_s() - begin_s > timeout_s)
      return nobody_came(w, ctx, timeout_s);
  }
  return HD_OK;
}

static hd_status hold(hd_world *w, hd_ctx *ctx, int fd) {
  int ranks;
  HD_TRY(read_head(&ranks, ctx, fd));
  w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return w->fd < 0 ? no_memory_file(ctx) : map_head(w, ctx, ranks);
}

hd_status hd__world_hold(hd_world **out, hd_ctx *ctx, int fd) {
  hd_world *w;
  HD_TRY(make(&w, ctx));
  hd_status status = hold(w, ctx, fd);
  *out = status == HD_OK ? w : NULL;
  if (status != HD_OK)
    release(w);
  return status;
}

static hd_status join(hd_world *w, hd_ctx *ctx, int fd, int rank, double timeout_s) {
  HD_TRY(hold(w, ctx, fd));
  HD_TRY(take_slot(w, ctx, rank));
  HD_TRY(wait_for_all(w, ctx, timeout_s));
  return w->ranks > 1 || w->head->parent ? hd__watch_start(&w->watch, ctx, w) : HD_OK;
}

hd_status hd__world_join(hd_world **out, hd_ctx *ctx, int fd, int rank, double timeout_s) {
  hd_world *w;
  HD_TRY(make(&w, ctx));
  *out = NULL;
  hd_status status = join(w, ctx, fd, rank, timeout_s);
  if (status == HD_OK)
    *out = w;
  else
    hd__world_leave(w);
  return status;
}

bool hd__world_launched(int *rank, int *ranks) {
  const char *text = getenv(HD_WORLD_VARIABLE);
  char rest;
  return text && sscanf(text, "%d/%d%c", rank, ranks, &rest) == 2;
}

hd_status hd__world_join_launched(hd_world **out, hd_ctx *ctx, double timeout_s) {
  int rank, ranks;
  *out = NULL;
  if (!hd__world_launched(&rank, &ranks))
    return hd__fail(ctx, HD_E_USAGE,
                    "expected to be started as one of several ranks, found no " HD_WORLD_VARIABLE
                    "; start the program with `heddle launch -n N -- PROGRAM`");
  return hd__world_join(out, ctx, HD_SPAWN_FD, rank, timeout_s);
}

void hd__world_leave(hd_world *w) {
  if (!w)
    return;
  hd__watch_end(w->watch);
  if (w->rank >= 0)
    atomic_store(&w->slot[w->rank].state, HD_RANK_LEFT);
  if (hd__world_hosts(w))
    hd__hosts_close(hd__world_hosts(w), atomic_load(&w->head->box.state) == 0);
  release(w);
}

int hd__world_rank(const hd_world *w) { return w ? w->rank : 0; }

int hd__world_ranks(const hd_world *w) { return w ? w->ranks : 1; }

int hd__world_fd(const hd_world *w) { return w ? w->fd : -1; }

bool hd__world_is_parented(const hd_world *w) { return w && w->head->parent != 0; }

int hd__world_parent(const hd_world *w, uint64_t *start) {
  *start = w->head->parent_start;
  return w->head->parent;
}

hd_rank_view hd__world_view(const hd_world *w, int rank) {
  world_slot *slot = &w->slot[rank];
  const int state = atomic_load(&slot->state);
  if (state < HD_RANK_JOINED) /* the rest is not written yet */
    return (hd_rank_view){.state = state, .step = -1};
  return (hd_rank_view){state, slot->pid, slot->start, atomic_load_explicit(&slot->step, memory_order_relaxed)};
}

/* What all ranks do together. */

hd_status hd__world_gather(void *all, hd_world *w, hd_ctx *ctx, const void *mine, size_t bytes) {
  if (!w || w->ranks == 1) {
    memcpy(all, mine, bytes);
    return HD_OK;
  }
  world_place *place = w->place + (w->gathers++ & 1) * (uint64_t)w->ranks;
  place[w->rank].bytes = (uint32_t)bytes;
  memcpy(place[w->rank].data, mine, bytes);
  if (hd__meeting_come(&w->meeting, w->rank, 0) & HD_MEETING_BROKEN)
    return hd__world_check(w, ctx);
  for (int r = 0; r < w->ranks; r++) {
    if (place[r].bytes != bytes)
      return hd__fail(ctx, HD_E_USAGE,
                      "expected all ranks to do the same, found that rank %d hands in %u bytes where rank %d hands in "
                      "%zu; do all ranks make the same calls in the same order?",
                      r, place[r].bytes, w->rank, bytes);
    memcpy((char *)all + (size_t)r * bytes, place[r].data, bytes);
  }
  return HD_OK;
}

hd_status hd__world_meet(hd_world *w, hd_ctx *ctx) {
  char all[HD_WORLD_MOST_RANKS];
  return hd__world_gather(all, w, ctx, "", 1);
}

/* The smallest free piece that has room, or with NO_ROOM one without any, taken; NULL: there is none. */
static world_piece *reuse(hd_world *w, int64_t bytes) {
  const int count = atomic_load(&w->head->pieces);
  for (;;) {
    int free = FREE;
    world_piece *best = NULL;
    for (int i = 0; i < count && i < HD_WORLD_PIECES; i++) {
      world_piece *p = &w->piece[i];
      if (atomic_load(&p->held) != FREE || (bytes == NO_ROOM && p->room != NO_ROOM))
        continue;
      if (p->room >= bytes && (!best || p->room < best->room))
        best = p;
    }
    if (!best || atomic_compare_exchange_strong(&best->held, &free, TAKING))
      return best;
  }
}

static hd_status too_many_pieces(hd_ctx *ctx) {
  return hd__fail(
      ctx, HD_E_USAGE,
      "expected at most %d pieces of memory that ranks share at a time, found more; destroy groups, buffers "
      "and sessions that are done with",
      HD_WORLD_PIECES);
}

hd_status hd__world_no_piece(hd_ctx *ctx, hd_status why, const char *what) {
  return why == HD_E_USAGE
             ? too_many_pieces(ctx)
             : hd__fail(ctx, why,
                        "expected memory for %s, found that the file of the ranks cannot grow; raise the limit "
                        "on memory, or share less",
                        what);
}

/* One more, taken; NULL: there are too many. */
static world_piece *add_piece(hd_world *w) {
  world_piece *spoiled = reuse(w, NO_ROOM);
  if (spoiled)
    return spoiled;
  const int which = atomic_fetch_add(&w->head->pieces, 1);
  if (which >= HD_WORLD_PIECES) {
    atomic_fetch_sub(&w->head->pieces, 1);
    return NULL;
  }
  atomic_store(&w->piece[which].held, TAKING);
  return &w->piece[which];
}

/* The file did not grow: the piece is there for who asks for less, and so is its place, if nobody came behind it. */
static void give_up_piece(hd_world *w, world_piece *p, int64_t end) {
  atomic_compare_exchange_strong(&w->head->used, &end, p->offset);
  p->room = NO_ROOM;
  atomic_store(&p->held, FREE);
}

/* Several ranks may do so at once: the file never becomes shorter, as ftruncate would make it for who comes late. */
static hd_status lengthen(world_piece **out, hd_world *w, hd_ctx *ctx, int64_t bytes) {
  const int64_t align = HD_SEGMENT_ALIGN, room = (bytes + align - 1) / align * align;
  world_piece *p = add_piece(w);
  if (!p)
    return too_many_pieces(ctx);
  p->offset = atomic_fetch_add(&w->head->used, room + align);
  const int64_t end = p->offset + room + align; /* the last page is never given back */
  if (pwrite(w->fd, "", 1, (off_t)(end - 1)) != 1) {
    const int why = errno;
    give_up_piece(w, p, end);
    return hd__fail(ctx, HD_E_NOMEM, "expected %lld MiB of memory for the ranks to share, found: %s",
                    (long long)(bytes >> 20), strerror(why));
  }
  p->room = room;
  *out = p;
  return HD_OK;
}

static hd_status take(int32_t *piece, hd_world *w, hd_ctx *ctx, size_t bytes, int holders, const char *name) {
  world_piece *p = reuse(w, (int64_t)bytes);
  if (!p)
    HD_TRY(lengthen(&p, w, ctx, (int64_t)bytes));
  p->bytes = (int64_t)bytes;
  p->number = atomic_fetch_add(&w->head->taken, 1);
  snprintf(p->name, sizeof p->name, "%s", name);
  *piece = (int32_t)(p - w->piece);
  atomic_store(&p->held, HELD_BY(holders));
  return HD_OK;
}

hd_status hd__world_take(int32_t *piece, hd_world *w, hd_ctx *ctx, size_t bytes, int holders) {
  return take(piece, w, ctx, bytes, holders, "");
}

void hd__world_untake(hd_world *w, int32_t piece) { atomic_store(&w->piece[piece].held, FREE); }

hd_status hd__world_map(hd_segment *out, hd_world *w, hd_ctx *ctx, int32_t piece, const char *what) {
  world_piece *p = &w->piece[piece];
  HD_TRY(hd__segment_map(out, ctx, w->fd, p->offset, (size_t)p->bytes, what));
  /* What ranks had when one failed is the parent's to save. */
  hd__segment_count(out, w->fd, p->offset, &p->held, &w->head->box.state);
  return HD_OK;
}

/* What a rank asks for; rank 0 adds where it is. */
typedef struct wish {
  char name[HD_WORLD_NAME_BYTES];
  int64_t bytes;
  int32_t piece;
  hd_status status;
} wish;

hd_status hd__world_memory(hd_segment *out, hd_world *w, hd_ctx *ctx, size_t bytes, const char *what) {
  *out = (hd_segment){0};
  if (!w)
    return hd__segment_create(out, ctx, bytes, what);
  wish mine = {.bytes = (int64_t)bytes};
  snprintf(mine.name, sizeof mine.name, "%s", what);
  if (w->rank == 0)
    mine.status = take(&mine.piece, w, NULL, bytes, w->ranks, what);
  wish *all = hd__calloc((size_t)w->ranks, sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %s", what);
  hd_status status = hd__world_gather(all, w, ctx, &mine, sizeof mine);
  const wish first = all[0];
  for (int r = 1; r < w->ranks && status == HD_OK; r++)
    if (all[r].bytes != first.bytes || strcmp(all[r].name, first.name))
      status = hd__fail(ctx, HD_E_USAGE,
                        "expected all ranks to share the same memory, found that rank %d wants %lld bytes for %s and "
                        "rank 0 %lld for %s; are they of one version, with the same settings?",
                        r, (long long)all[r].bytes, all[r].name, (long long)first.bytes, first.name);
  hd__free(all);
  if (status == HD_OK && first.status != HD_OK)
    status = hd__world_no_piece(ctx, first.status, what);
  return status == HD_OK ? hd__world_map(out, w, ctx, first.piece, what) : status;
}

hd_status hd__world_find(hd_segment *out, hd_world *w, hd_ctx *ctx, const char *what) {
  const int count = atomic_load_explicit(&w->head->pieces, memory_order_acquire);
  const world_piece *last = NULL;
  *out = (hd_segment){0};
  for (int i = 0; i < count && i < HD_WORLD_PIECES; i++) {
    const world_piece *p = &w->piece[i];
    if (atomic_load(&p->held) > HELD_BY(0) && !strncmp(p->name, what, sizeof p->name) &&
        (!last || p->number > last->number))
      last = p;
  }
  if (last)
    return hd__segment_map(out, ctx, w->fd, last->offset, (size_t)last->bytes, what);
  return hd__fail(ctx, HD_E_USAGE, "expected the ranks to share %s, found nothing of that name", what);
}

/* What breaks it. */

void hd__world_set_patience(hd_world *w, double seconds) {
  if (w)
    w->patience_s = seconds;
}

double hd__world_patience(const hd_world *w) { return w->patience_s; }

/* -1 where the CPUs that this thread may use live under several. */
static int find_cache(void) {
  hd_topology *machine;
  hd_cpu_set may;
  int cache = -2;
  if (!hd__cpu_set_read(&may) || hd_topology_create(&machine, NULL) != HD_OK)
    return -1;
  for (int i = 0; i < machine->cpus; i++) {
    const hd_cpu *cpu = &machine->cpu[i];
    if (hd__cpu_set_has(&may, cpu->cpu))
      cache = cache == -2 || cache == cpu->l3 ? cpu->l3 : -1;
  }
  hd_topology_destroy(machine);
  return cache < 0 ? -1 : cache;
}

int hd__world_cache(hd_world *w) {
  enum { FEWEST = 4 };
  if (w->cache == -2)
    w->cache = w->ranks < FEWEST ? -1 : find_cache();
  return w->cache;
}

int64_t hd__world_next_group(const hd_world *w) { return w->next_group; }

void hd__world_set_next_group(hd_world *w, int64_t number) { w->next_group = number; }

hd_hosts *hd__world_hosts(const hd_world *w) { return w ? atomic_load(&w->hosts) : NULL; }

void hd__world_set_hosts(hd_world *w, hd_hosts *hosts) { atomic_store(&w->hosts, hosts); }

const char *hd__world_host_name(const hd_world *w) { return w ? w->host : "this host"; }

void hd__world_step(hd_world *w, int64_t step) {
  if (w)
    atomic_store_explicit(&w->slot[w->rank].step, step, memory_order_relaxed);
}

void hd__world_break(hd_world *w, const hd_fault *fault) {
  const hd_hosts *hosts = hd__world_hosts(w);
  hd_fault whole = *fault;
  for (int r = 0; r < w->ranks && fault->step >= 0; r++) { /* it may be lost before it counts a step that counts */
    const int64_t step = hd__world_view(w, r).step;
    whole.step = step > whole.step ? step : whole.step;
  }
  if (fault->rank >= 0) {
    whole.named = hd__hosts_named(hosts, fault->rank);
    snprintf(whole.host, sizeof whole.host, "%s", hosts ? hd__hosts_name(w, hd__hosts_mine(w)) : w->host);
  }
  hd__fault_put(&w->head->box, &whole);
}

void hd__world_give_up(hd_world *w, const char *why) {
  if (!w || w->rank < 0)
    return;
  const hd_rank_view view = hd__world_view(w, w->rank);
  hd_fault fault = {.kind = HD_FAULT_GAVE_UP, .rank = w->rank, .pid = view.pid, .step = view.step};
  snprintf(fault.text, sizeof fault.text, "%s", why);
  hd__world_break(w, &fault);
  if (hd__world_fault(&fault, w))
    hd__hosts_tell(hd__world_hosts(w), &fault);
}

const atomic_uint *hd__world_broken_word(const hd_world *w) { return &w->head->box.state; }

void hd__world_late(hd_world *w, int rank, int64_t waited_ns) {
  if ((double)waited_ns < 1e9 * w->patience_s)
    return;
  const hd_rank_view view = hd__world_view(w, rank);
  hd__world_break(w, &(hd_fault){.kind = HD_FAULT_LATE,
                                 .rank = rank,
                                 .pid = view.pid,
                                 .number = (int32_t)(waited_ns / 1000000000),
                                 .step = view.step});
}

void hd__world_keep_process(hd_world *w) {
  if (w && w->watch)
    hd__watch_heard(w->watch);
}

static bool is_first_left(const hd_world *w, const hd_fault *fault) {
  for (int r = 0; r < w->rank; r++) {
    const hd_rank_view view = hd__world_view(w, r);
    const bool lost = fault->kind != HD_FAULT_PARENT && fault->rank == r;
    if (view.state == HD_RANK_JOINED && !lost && !hd__process_look(view.pid, view.start).has_ended)
      return false;
  }
  return true;
}

bool hd__world_is_heir(const hd_world *w) {
  hd_fault fault;
  return hd__world_fault(&fault, w) && (!w->head->parent || fault.kind == HD_FAULT_PARENT) && is_first_left(w, &fault);
}

bool hd__world_fault(hd_fault *out, const hd_world *w) { return w && hd__fault_get(out, &w->head->box); }

hd_status hd__world_check(hd_world *w, hd_ctx *ctx) {
  hd_fault fault;
  char line[HD_FAULT_LINE_BYTES];
  if (!hd__world_fault(&fault, w))
    return HD_OK;
  if (w->watch)
    hd__watch_heard(w->watch);
  if (hd__world_hosts(w) && is_first_left(w, &fault))
    hd__hosts_tell(hd__world_hosts(w), &fault);
  return hd__fail(ctx, HD_E_PEER, "%s", hd__fault_line(line, &fault));
}
