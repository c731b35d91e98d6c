/* The local group: its memory file, joining it, and collectives of its ranks; see local_group.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "exec/exchange/local_group.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
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
#include "exec/exchange/cluster.h"
#include "exec/exchange/rank_watch.h"
#include "heddle/topology.h"
#include "platform/clock.h"
#include "platform/cpu_set.h"
#include "platform/process.h"
#include "platform/spawn.h"

#define GROUP_MAGIC UINT64_C(0x646c726f77646468)

enum { GROUP_VERSION = 4 };

static const double TIMEOUT_S = 60;

/* Sealed against shrinking, so that no process that maps the file loses a page, and against further seals, so that
 * it can grow. */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_SEAL };

typedef struct rank_slot {
  _Alignas(128) atomic_int state;
  int32_t pid;
  uint64_t start;
  _Atomic int64_t step;
} rank_slot;

typedef struct gather_slot {
  uint32_t bytes;
  _Alignas(8) char data[HD_LOCAL_GROUP_GATHER_BYTES];
} gather_slot;

/* A block of the file. */
typedef struct shared_block {
  atomic_int held;      /* HELD_BY(number of ranks); FREE; or TAKING: being allocated */
  int64_t offset, room; /* room: its size; NO_ROOM: the file could not grow for it */
  int64_t bytes;        /* that were requested */
  uint64_t number;      /* later allocations have higher ones */
  char name[HD_LOCAL_GROUP_NAME_BYTES];
} shared_block;

enum { TAKING = -1, FREE = 0, NO_ROOM = -1 };
#define HELD_BY(ranks) ((ranks) + 1) /* 1: the last rank is freeing it */

typedef struct group_head {
  _Atomic uint64_t magic;
  int32_t version, ranks, parent; /* parent: pid, 0: none */
  uint64_t parent_start;
  atomic_uint joined;     /* a futex word */
  _Atomic int64_t used;   /* of the file */
  atomic_int blocks;      /* entries of the table in use, free ones included */
  _Atomic uint64_t taken; /* number of allocations */
} group_head;

struct hd_local_group {
  int fd, rank, ranks;
  hd_segment map;
  group_head *head;
  hd_fault_record *record; /* notes of each rank, and of the founder, which is no rank */
  atomic_bool notes;       /* a thread of this process records a fault, or did */
  rank_slot *slot;
  gather_slot *place;
  shared_block *block;
  hd_barrier barrier;
  hd_barrier_watch barrier_watch;
  hd_watch *watch; /* NULL: no watcher */
  uint64_t gathers;
  double timeout_s;
  int64_t next_group;
  int cache; /* -2: not looked up yet */
  _Atomic(hd_cluster *) cluster;
  char host[HD_FAULT_HOST_BYTES];
};

/* Lays out what stands before the blocks; returns its size. */
static size_t lay_out(hd_local_group *w, char *base, int ranks) {
  size_t record = (sizeof(group_head) + 127) / 128 * 128;
  size_t slots = record + (hd__fault_record_bytes(ranks + 1) + 127) / 128 * 128;
  size_t lines = slots + (size_t)ranks * sizeof(rank_slot);
  size_t places = lines + (size_t)HD_BARRIER_LINES(ranks) * sizeof(hd_barrier_line);
  size_t blocks = places + 2 * (size_t)ranks * sizeof(gather_slot);
  if (base) {
    w->head = (group_head *)base;
    w->record = (hd_fault_record *)(base + record);
    w->slot = (rank_slot *)(base + slots);
    w->place = (gather_slot *)(base + places);
    w->block = (shared_block *)(base + blocks);
    w->barrier_watch = (hd_barrier_watch){.broken = &w->record->state};
    hd__barrier_join(&w->barrier, (hd_barrier_line *)(base + lines), ranks, 1, &w->barrier_watch);
  }
  return blocks + HD_LOCAL_GROUP_BLOCKS * sizeof(shared_block);
}

static void late_at_barrier(void *self, int rank, int64_t waited_ns) { hd__local_group_late(self, rank, waited_ns); }

static hd_status make(hd_local_group **out, hd_ctx *ctx) {
  *out = NULL;
  hd_local_group *w = hd__calloc(1, sizeof *w);
  if (!w)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the group of ranks");
  w->fd = w->rank = -1;
  w->timeout_s = TIMEOUT_S;
  w->cache = -2;
  if (gethostname(w->host, sizeof w->host - 1) != 0)
    snprintf(w->host, sizeof w->host, "this host");
  *out = w;
  return HD_OK;
}

static void release(hd_local_group *w) {
  hd__segment_destroy(&w->map);
  if (w->fd >= 0)
    close(w->fd);
  hd__free(w);
}

static hd_status no_memory_file(hd_ctx *ctx) {
  return hd__fail(ctx, HD_E_SYSTEM, "expected a memory file for the ranks to share, found: %s", strerror(errno));
}

/* Maps what stands before the blocks, of a group of `ranks`. */
static hd_status map_head(hd_local_group *w, hd_ctx *ctx, int ranks) {
  HD_TRY(hd__segment_map(&w->map, ctx, w->fd, 0, lay_out(w, NULL, ranks), "the group of ranks"));
  lay_out(w, w->map.base, ranks);
  w->ranks = ranks;
  w->barrier_watch.self = w;
  w->barrier_watch.late = late_at_barrier;
  return HD_OK;
}

static hd_status found(hd_local_group *w, hd_ctx *ctx, int ranks, bool parented) {
  const int64_t size =
      (int64_t)((lay_out(w, NULL, ranks) + HD_SEGMENT_ALIGN - 1) / HD_SEGMENT_ALIGN * HD_SEGMENT_ALIGN);
  w->fd = memfd_create("heddle-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (w->fd < 0 || ftruncate(w->fd, (off_t)size) != 0 || fcntl(w->fd, F_ADD_SEALS, SEALS) != 0)
    return no_memory_file(ctx);
  HD_TRY(map_head(w, ctx, ranks));
  w->head->version = GROUP_VERSION;
  w->head->ranks = ranks;
  atomic_store(&w->head->used, size);
  if (parented) {
    w->head->parent = (int32_t)getpid();
    w->head->parent_start = hd__process_start(0);
  }
  for (int r = 0; r < ranks; r++)
    atomic_store(&w->slot[r].step, -1);
  atomic_store_explicit(&w->head->magic, GROUP_MAGIC, memory_order_release);
  return HD_OK;
}

hd_status hd__local_group_found(hd_local_group **out, hd_ctx *ctx, int ranks, bool parented) {
  *out = NULL;
  if (ranks < 1 || ranks > HD_LOCAL_GROUP_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected 1 to %d ranks, found %d", HD_LOCAL_GROUP_MOST_RANKS, ranks);
  hd_local_group *w;
  HD_TRY(make(&w, ctx));
  hd_status status = found(w, ctx, ranks, parented);
  if (status == HD_OK)
    *out = w;
  else
    release(w);
  return status;
}

static hd_status refuse_file(hd_ctx *ctx, int fd, const char *found) {
  return hd__fail(
      ctx, HD_E_USAGE,
      "expected the memory of the ranks at descriptor %d, found %s; start the ranks with `heddle launch` of "
      "this version, and let them keep their descriptors",
      fd, found);
}

/* A descriptor may come from an environment that another program left, or over a socket. A memory file of this user
 * that is sealed against shrinking is safe to map; its head, read into private memory, gives its least length. */
static hd_status read_head(int *ranks, hd_ctx *ctx, int fd) {
  hd_local_group sizes;
  group_head head;
  struct stat file;
  char found[96];
  if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || head.magic != GROUP_MAGIC ||
      head.version != GROUP_VERSION || head.ranks < 1 || head.ranks > HD_LOCAL_GROUP_MOST_RANKS ||
      fstat(fd, &file) != 0)
    return refuse_file(ctx, fd, "another file or none");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (!S_ISREG(file.st_mode) || seals < 0 || (seals & SEALS) != SEALS)
    return refuse_file(ctx, fd, "a file that can become shorter while it is mapped");
  if (file.st_uid != geteuid()) {
    snprintf(found, sizeof found, "memory of another user (uid %u)", (unsigned)file.st_uid);
    return refuse_file(ctx, fd, found);
  }
  if (file.st_size < (off_t)lay_out(&sizes, NULL, head.ranks)) {
    snprintf(found, sizeof found, "%lld bytes for %d ranks, which is too short", (long long)file.st_size, head.ranks);
    return refuse_file(ctx, fd, found);
  }
  *ranks = head.ranks;
  return HD_OK;
}

hd_status hd__local_group_check_file(hd_ctx *ctx, int fd, int ranks) {
  int there;
  char found[64];
  HD_TRY(read_head(&there, ctx, fd));
  if (there == ranks)
    return HD_OK;
  snprintf(found, sizeof found, "that of %d ranks instead of %d", there, ranks);
  return refuse_file(ctx, fd, found);
}

static hd_status take_slot(hd_local_group *w, hd_ctx *ctx, int rank) {
  int absent = HD_RANK_ABSENT;
  if (rank < 0 || rank >= w->ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected a rank from 0 to %d, found %d", w->ranks - 1, rank);
  rank_slot *slot = &w->slot[rank];
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

/* Before the watcher starts: finds a rank that joined and ended, or a parent that ended. */
static void check_processes(hd_local_group *w) {
  const group_head *head = w->head;
  if (head->parent && hd__process_read(head->parent, head->parent_start).has_ended)
    hd__local_group_break(w, &(hd_fault){.kind = HD_FAULT_PARENT, .pid = head->parent, .step = -1});
  for (int r = 0; r < w->ranks; r++) {
    hd_rank_view view = hd__local_group_view(w, r);
    if (view.state != HD_RANK_JOINED)
      continue;
    const hd_process_state process = hd__process_read(view.pid, view.start);
    hd_fault fault = {.kind = HD_FAULT_GONE, .rank = r, .pid = view.pid, .step = view.step};
    if (process.end_is_known)
      hd__fault_of_end(&fault, process.end);
    if (process.has_ended)
      hd__local_group_break(w, &fault);
  }
}

static hd_status ranks_missing(const hd_local_group *w, hd_ctx *ctx, double timeout_s) {
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

static hd_status wait_for_all(hd_local_group *w, hd_ctx *ctx, double timeout_s) {
  const struct timespec interval = {.tv_nsec = HD_BARRIER_CHECK_MS * 1000000L};
  const double begin_s = hd__clock_s();
  unsigned joined;
  while ((int)(joined = atomic_load(&w->head->joined)) < w->ranks) {
    syscall(SYS_futex, &w->head->joined, FUTEX_WAIT, joined, &interval, NULL, 0);
    check_processes(w);
    HD_TRY(hd__local_group_check(w, ctx));
    if (hd__clock_s() - begin_s > timeout_s)
      return ranks_missing(w, ctx, timeout_s);
  }
  return HD_OK;
}

static hd_status hold(hd_local_group *w, hd_ctx *ctx, int fd) {
  int ranks;
  HD_TRY(read_head(&ranks, ctx, fd));
  w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return w->fd < 0 ? no_memory_file(ctx) : map_head(w, ctx, ranks);
}

hd_status hd__local_group_hold(hd_local_group **out, hd_ctx *ctx, int fd) {
  hd_local_group *w;
  HD_TRY(make(&w, ctx));
  hd_status status = hold(w, ctx, fd);
  *out = status == HD_OK ? w : NULL;
  if (status != HD_OK)
    release(w);
  return status;
}

static hd_status join(hd_local_group *w, hd_ctx *ctx, int fd, int rank, double timeout_s) {
  HD_TRY(hold(w, ctx, fd));
  HD_TRY(take_slot(w, ctx, rank));
  HD_TRY(wait_for_all(w, ctx, timeout_s));
  return w->ranks > 1 || w->head->parent ? hd__watch_start(&w->watch, ctx, w) : HD_OK;
}

hd_status hd__local_group_join(hd_local_group **out, hd_ctx *ctx, int fd, int rank, double timeout_s) {
  hd_local_group *w;
  HD_TRY(make(&w, ctx));
  *out = NULL;
  hd_status status = join(w, ctx, fd, rank, timeout_s);
  if (status == HD_OK)
    *out = w;
  else
    hd__local_group_leave(w);
  return status;
}

bool hd__local_group_launched(int *rank, int *ranks) {
  const char *text = getenv(HD_LOCAL_GROUP_VARIABLE);
  char rest;
  return text && sscanf(text, "%d/%d%c", rank, ranks, &rest) == 2;
}

hd_status hd__local_group_join_launched(hd_local_group **out, hd_ctx *ctx, double timeout_s) {
  int rank, ranks;
  *out = NULL;
  if (!hd__local_group_launched(&rank, &ranks))
    return hd__fail(ctx, HD_E_USAGE,
                    "expected to be started as one of several ranks, found no " HD_LOCAL_GROUP_VARIABLE
                    "; start the program with `heddle launch -n N -- PROGRAM`");
  HD_TRY(hd__local_group_check_file(ctx, HD_SPAWN_FD, ranks));
  return hd__local_group_join(out, ctx, HD_SPAWN_FD, rank, timeout_s);
}

void hd__local_group_leave(hd_local_group *w) {
  if (!w)
    return;
  hd__watch_end(w->watch);
  if (w->rank >= 0)
    atomic_store(&w->slot[w->rank].state, HD_RANK_LEFT);
  if (hd__local_group_cluster(w))
    hd__cluster_close(hd__local_group_cluster(w), atomic_load(&w->record->state) == 0);
  release(w);
}

int hd__local_group_rank(const hd_local_group *w) { return w ? w->rank : 0; }

int hd__local_group_ranks(const hd_local_group *w) { return w ? w->ranks : 1; }

int hd__local_group_fd(const hd_local_group *w) { return w ? w->fd : -1; }

bool hd__local_group_is_parented(const hd_local_group *w) { return w && w->head->parent != 0; }

int hd__local_group_parent(const hd_local_group *w, uint64_t *start) {
  *start = w->head->parent_start;
  return w->head->parent;
}

hd_rank_view hd__local_group_view(const hd_local_group *w, int rank) {
  rank_slot *slot = &w->slot[rank];
  const int state = atomic_load(&slot->state);
  if (state < HD_RANK_JOINED) /* the rest is not written yet */
    return (hd_rank_view){.state = state, .step = -1};
  return (hd_rank_view){state, slot->pid, slot->start, atomic_load_explicit(&slot->step, memory_order_relaxed)};
}

/* ---- collectives and shared memory ---- */

hd_status hd__local_group_gather(void *all, hd_local_group *w, hd_ctx *ctx, const void *input, size_t bytes) {
  if (!w || w->ranks == 1) {
    memcpy(all, input, bytes);
    return HD_OK;
  }
  gather_slot *place = w->place + (w->gathers++ & 1) * (uint64_t)w->ranks;
  place[w->rank].bytes = (uint32_t)bytes;
  memcpy(place[w->rank].data, input, bytes);
  if (hd__barrier_wait(&w->barrier, w->rank, 0) & HD_BARRIER_BROKEN)
    return hd__local_group_check(w, ctx);
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

hd_status hd__local_group_barrier(hd_local_group *w, hd_ctx *ctx) {
  char all[HD_LOCAL_GROUP_MOST_RANKS];
  return hd__local_group_gather(all, w, ctx, "", 1);
}

/* Takes the smallest free block that has room, or with NO_ROOM one without any; NULL: there is none. */
static shared_block *reuse(hd_local_group *w, int64_t bytes) {
  const int count = atomic_load(&w->head->blocks);
  for (;;) {
    int free = FREE;
    shared_block *best = NULL;
    for (int i = 0; i < count && i < HD_LOCAL_GROUP_BLOCKS; i++) {
      shared_block *p = &w->block[i];
      if (atomic_load(&p->held) != FREE || (bytes == NO_ROOM && p->room != NO_ROOM))
        continue;
      if (p->room >= bytes && (!best || p->room < best->room))
        best = p;
    }
    if (!best || atomic_compare_exchange_strong(&best->held, &free, TAKING))
      return best;
  }
}

static hd_status too_many_blocks(hd_ctx *ctx) {
  return hd__fail(
      ctx, HD_E_USAGE,
      "expected at most %d blocks of memory that ranks share at a time, found more; destroy groups, buffers "
      "and sessions that are done with",
      HD_LOCAL_GROUP_BLOCKS);
}

hd_status hd__local_group_no_block(hd_ctx *ctx, hd_status why, const char *what) {
  return why == HD_E_USAGE
             ? too_many_blocks(ctx)
             : hd__fail(ctx, why,
                        "expected memory for %s, found that the file of the ranks cannot grow; raise the limit "
                        "on memory, or share less",
                        what);
}

/* Takes a new block of the table; NULL: the table is full. */
static shared_block *add_block(hd_local_group *w) {
  shared_block *spoiled = reuse(w, NO_ROOM);
  if (spoiled)
    return spoiled;
  const int which = atomic_fetch_add(&w->head->blocks, 1);
  if (which >= HD_LOCAL_GROUP_BLOCKS) {
    atomic_fetch_sub(&w->head->blocks, 1);
    return NULL;
  }
  atomic_store(&w->block[which].held, TAKING);
  return &w->block[which];
}

/* The file did not grow: frees the entry, and its range of the file unless another block was allocated behind it. */
static void discard_block(hd_local_group *w, shared_block *p, int64_t end) {
  atomic_compare_exchange_strong(&w->head->used, &end, p->offset);
  p->room = NO_ROOM;
  atomic_store(&p->held, FREE);
}

/* Appends a block to the file. Several ranks may do so at once: a write behind the end never shortens the file,
 * whereas a late ftruncate would. */
static hd_status lengthen(shared_block **out, hd_local_group *w, hd_ctx *ctx, int64_t bytes) {
  const int64_t align = HD_SEGMENT_ALIGN, room = (bytes + align - 1) / align * align;
  shared_block *p = add_block(w);
  if (!p)
    return too_many_blocks(ctx);
  p->offset = atomic_fetch_add(&w->head->used, room + align);
  const int64_t end = p->offset + room + align; /* the last page is never freed */
  if (pwrite(w->fd, "", 1, (off_t)(end - 1)) != 1) {
    const int why = errno;
    discard_block(w, p, end);
    return hd__fail(ctx, HD_E_NOMEM, "expected %lld MiB of memory for the ranks to share, found: %s",
                    (long long)(bytes >> 20), strerror(why));
  }
  p->room = room;
  *out = p;
  return HD_OK;
}

static hd_status take(int32_t *block, hd_local_group *w, hd_ctx *ctx, size_t bytes, int holders, const char *name) {
  shared_block *p = reuse(w, (int64_t)bytes);
  if (!p)
    HD_TRY(lengthen(&p, w, ctx, (int64_t)bytes));
  p->bytes = (int64_t)bytes;
  p->number = atomic_fetch_add(&w->head->taken, 1);
  snprintf(p->name, sizeof p->name, "%s", name);
  *block = (int32_t)(p - w->block);
  atomic_store(&p->held, HELD_BY(holders));
  return HD_OK;
}

hd_status hd__local_group_allocate(int32_t *block, hd_local_group *w, hd_ctx *ctx, size_t bytes, int holders) {
  return take(block, w, ctx, bytes, holders, "");
}

void hd__local_group_release(hd_local_group *w, int32_t block) { atomic_store(&w->block[block].held, FREE); }

/* Offset and size of a block, read once: they are in memory that all ranks write. */
typedef struct span {
  int64_t offset;
  size_t bytes;
} span;

/* Checks that a block is inside the file: touching a page behind its end would end the process. */
static hd_status find_span(span *out, const hd_local_group *w, hd_ctx *ctx, const shared_block *p, const char *what) {
  const volatile shared_block *shared = p;
  const int64_t offset = shared->offset, bytes = shared->bytes;
  hd_local_group sizes;
  struct stat file;
  const int64_t first = (int64_t)lay_out(&sizes, NULL, w->ranks);
  *out = (span){offset, (size_t)bytes};
  if (fstat(w->fd, &file) == 0 && bytes >= 0 && bytes <= file.st_size && offset >= first && offset <= file.st_size &&
      offset % HD_SEGMENT_ALIGN == 0 && (int64_t)hd__segment_bytes((size_t)bytes) <= file.st_size - offset)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "expected %s inside the memory of the ranks, found %lld bytes at %lld of a file of %lld; another "
                  "process has overwritten that memory: start the ranks again",
                  what, (long long)bytes, (long long)offset, (long long)file.st_size);
}

hd_status hd__local_group_map(hd_segment *out, hd_local_group *w, hd_ctx *ctx, int32_t block, const char *what) {
  span at;
  *out = (hd_segment){0};
  if (block < 0 || block >= HD_LOCAL_GROUP_BLOCKS)
    return hd__fail(ctx, HD_E_FORMAT,
                    "expected %s in one of %d blocks of memory, found number %d; start the ranks again", what,
                    HD_LOCAL_GROUP_BLOCKS, block);
  shared_block *p = &w->block[block];
  HD_TRY(find_span(&at, w, ctx, p, what));
  HD_TRY(hd__segment_map(out, ctx, w->fd, at.offset, at.bytes, what));
  /* After a fault the block is kept: the parent saves from it. */
  hd__segment_count(out, w->fd, at.offset, &p->held, &w->record->state);
  return HD_OK;
}

/* What a rank requests; rank 0 adds the block. */
typedef struct request {
  char name[HD_LOCAL_GROUP_NAME_BYTES];
  int64_t bytes;
  int32_t block;
  hd_status status;
} request;

hd_status hd__local_group_memory(hd_segment *out, hd_local_group *w, hd_ctx *ctx, size_t bytes, const char *what) {
  *out = (hd_segment){0};
  if (!w)
    return hd__segment_create(out, ctx, bytes, what);
  request input = {.bytes = (int64_t)bytes};
  snprintf(input.name, sizeof input.name, "%s", what);
  if (w->rank == 0)
    input.status = take(&input.block, w, NULL, bytes, w->ranks, what);
  request *all = hd__calloc((size_t)w->ranks, sizeof *all);
  if (!all)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %s", what);
  hd_status status = hd__local_group_gather(all, w, ctx, &input, sizeof input);
  for (int r = 0; r < w->ranks; r++)
    all[r].name[sizeof all[r].name - 1] = 0;
  const request first = all[0];
  for (int r = 1; r < w->ranks && status == HD_OK; r++)
    if (all[r].bytes != first.bytes || strcmp(all[r].name, first.name))
      status = hd__fail(ctx, HD_E_USAGE,
                        "expected all ranks to share the same memory, found that rank %d wants %lld bytes for %s and "
                        "rank 0 %lld for %s; are they of one version, with the same settings?",
                        r, (long long)all[r].bytes, all[r].name, (long long)first.bytes, first.name);
  hd__free(all);
  if (status == HD_OK && first.status != HD_OK)
    status = hd__local_group_no_block(ctx, first.status, what);
  return status == HD_OK ? hd__local_group_map(out, w, ctx, first.block, what) : status;
}

hd_status hd__local_group_find(hd_segment *out, hd_local_group *w, hd_ctx *ctx, const char *what) {
  const int count = atomic_load_explicit(&w->head->blocks, memory_order_acquire);
  const shared_block *last = NULL;
  *out = (hd_segment){0};
  for (int i = 0; i < count && i < HD_LOCAL_GROUP_BLOCKS; i++) {
    const shared_block *p = &w->block[i];
    if (atomic_load(&p->held) > HELD_BY(0) && !strncmp(p->name, what, sizeof p->name) &&
        (!last || p->number > last->number))
      last = p;
  }
  if (!last)
    return hd__fail(ctx, HD_E_USAGE, "expected the ranks to share %s, found nothing of that name", what);
  span at;
  HD_TRY(find_span(&at, w, ctx, last, what));
  return hd__segment_map(out, ctx, w->fd, at.offset, at.bytes, what);
}

/* ---- faults and properties ---- */

void hd__local_group_set_timeout(hd_local_group *w, double seconds) {
  if (w)
    w->timeout_s = seconds;
}

double hd__local_group_timeout(const hd_local_group *w) { return w->timeout_s; }

/* The L3 cache of the CPUs that this thread may use; -1: several. */
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

int hd__local_group_cache(hd_local_group *w) {
  enum { FEWEST = 4 };
  if (w->cache == -2)
    w->cache = w->ranks < FEWEST ? -1 : find_cache();
  return w->cache;
}

int64_t hd__local_group_next_group(const hd_local_group *w) { return w->next_group; }

void hd__local_group_set_next_group(hd_local_group *w, int64_t number) { w->next_group = number; }

hd_cluster *hd__local_group_cluster(const hd_local_group *w) { return w ? atomic_load(&w->cluster) : NULL; }

void hd__local_group_set_cluster(hd_local_group *w, hd_cluster *cluster) { atomic_store(&w->cluster, cluster); }

const char *hd__local_group_host_name(const hd_local_group *w) { return w ? w->host : "this host"; }

void hd__local_group_step(hd_local_group *w, int64_t step) {
  if (w)
    atomic_store_explicit(&w->slot[w->rank].step, step, memory_order_relaxed);
}

void hd__local_group_break(hd_local_group *w, const hd_fault *fault) {
  const hd_cluster *cluster = hd__local_group_cluster(w);
  hd_fault whole = *fault;
  for (int r = 0; r < w->ranks && fault->step >= 0; r++) { /* the lost rank may not have counted the last step */
    const int64_t step = hd__local_group_view(w, r).step;
    whole.step = step > whole.step ? step : whole.step;
  }
  if (fault->rank >= 0) {
    whole.global_rank = hd__cluster_global_rank(cluster, fault->rank);
    snprintf(whole.host, sizeof whole.host, "%s", cluster ? hd__cluster_name(w, hd__cluster_this_host(w)) : w->host);
  }
  /* The threads of a process share one note: the first of them writes it. */
  if (!atomic_exchange(&w->notes, true))
    hd__fault_put(w->record, w->rank >= 0 ? w->rank : w->ranks, &whole);
  while (atomic_load(&w->record->state) == 0)
    sched_yield();
}

void hd__local_group_give_up(hd_local_group *w, const char *why) {
  if (!w || w->rank < 0)
    return;
  const hd_rank_view view = hd__local_group_view(w, w->rank);
  hd_fault fault = {.kind = HD_FAULT_GAVE_UP, .rank = w->rank, .pid = view.pid, .step = view.step};
  snprintf(fault.text, sizeof fault.text, "%s", why);
  hd__local_group_break(w, &fault);
  if (hd__local_group_fault(&fault, w))
    hd__cluster_send_fault(hd__local_group_cluster(w), &fault);
}

const atomic_uint *hd__local_group_broken_word(const hd_local_group *w) { return &w->record->state; }

void hd__local_group_late(hd_local_group *w, int rank, int64_t waited_ns) {
  if ((double)waited_ns < 1e9 * w->timeout_s)
    return;
  const hd_rank_view view = hd__local_group_view(w, rank);
  hd__local_group_break(w, &(hd_fault){.kind = HD_FAULT_LATE,
                                       .rank = rank,
                                       .pid = view.pid,
                                       .number = (int32_t)(waited_ns / 1000000000),
                                       .step = view.step});
}

void hd__local_group_keep_process(hd_local_group *w) {
  if (w && w->watch)
    hd__watch_acknowledge(w->watch);
}

static bool is_first_left(const hd_local_group *w, const hd_fault *fault) {
  for (int r = 0; r < w->rank; r++) {
    const hd_rank_view view = hd__local_group_view(w, r);
    const bool lost = fault->kind != HD_FAULT_PARENT && fault->rank == r;
    if (view.state == HD_RANK_JOINED && !lost && !hd__process_read(view.pid, view.start).has_ended)
      return false;
  }
  return true;
}

bool hd__local_group_is_saver(const hd_local_group *w) {
  hd_fault fault;
  return hd__local_group_fault(&fault, w) && (!w->head->parent || fault.kind == HD_FAULT_PARENT) &&
         is_first_left(w, &fault);
}

bool hd__local_group_fault(hd_fault *out, const hd_local_group *w) {
  return w && hd__fault_get(out, w->record, w->ranks + 1);
}

hd_status hd__local_group_check(hd_local_group *w, hd_ctx *ctx) {
  hd_fault fault;
  char line[HD_FAULT_LINE_BYTES];
  if (!hd__local_group_fault(&fault, w))
    return HD_OK;
  if (w->watch)
    hd__watch_acknowledge(w->watch);
  if (hd__local_group_cluster(w) && is_first_left(w, &fault))
    hd__cluster_send_fault(hd__local_group_cluster(w), &fault);
  return hd__fail(ctx, HD_E_PEER, "%s", hd__fault_line(line, &fault));
}
