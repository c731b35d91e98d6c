/* Creating, joining and leaving a local group: its memory file, its ranks, and their watcher; see
 * local_group_join.h. */
#include "exec/exchange/local_group_join.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "exec/exchange/cluster.h"
#include "exec/exchange/local_group_state.h"
#include "exec/exchange/rank_watch.h"
#include "platform/clock.h"
#include "platform/memory_file.h"
#include "platform/memory_word.h"
#include "platform/process.h"
#include "platform/spawn.h"
#include "platform/thread_start.h"

#define GROUP_MAGIC UINT64_C(0x646c726f77646468)

enum { GROUP_VERSION = 4 };

static const double TIMEOUT_S = 60;

static hd_status make(hd_local_group **out, hd_ctx *ctx) {
  *out = NULL;
  hd_local_group *w = hd__calloc(1, sizeof *w);
  if (!w)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the group of ranks");
  w->fd = w->rank = -1;
  w->process = hd__this_process();
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
  return hd__fail(ctx, HD_E_SYSTEM, "cannot create a memory file for the ranks to share: %s", strerror(errno));
}

/* Maps what stands before the blocks, of a group of `ranks`. */
static hd_status map_head(hd_local_group *w, hd_ctx *ctx, int ranks) {
  HD_TRY(hd__segment_map(&w->map, ctx, w->fd, 0, hd__local_group_lay_out(w, NULL, ranks), "the group of ranks"));
  hd__local_group_lay_out(w, w->map.base, ranks);
  w->ranks = ranks;
  return HD_OK;
}

static hd_status found(hd_local_group *w, hd_ctx *ctx, int ranks, bool parented) {
  const int64_t size =
      (int64_t)((hd__local_group_lay_out(w, NULL, ranks) + HD_SEGMENT_ALIGN - 1) / HD_SEGMENT_ALIGN * HD_SEGMENT_ALIGN);
  w->fd = hd__memory_file("heddle-ranks", size, true);
  if (w->fd < 0)
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
      "this version, and do not close their descriptors",
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
    return refuse_file(ctx, fd, "a different file or none");
  if (!S_ISREG(file.st_mode) || !hd__memory_file_is_fixed(fd, true))
    return refuse_file(ctx, fd, "a file that can be truncated while it is mapped");
  if (file.st_uid != geteuid()) {
    snprintf(found, sizeof found, "memory of another user (uid %u)", (unsigned)file.st_uid);
    return refuse_file(ctx, fd, found);
  }
  if (file.st_size < (off_t)hd__local_group_lay_out(&sizes, NULL, head.ranks)) {
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
  snprintf(found, sizeof found, "the memory of %d ranks instead of %d", there, ranks);
  return refuse_file(ctx, fd, found);
}

static hd_status take_slot(hd_local_group *w, hd_ctx *ctx, int rank) {
  int absent = HD_RANK_ABSENT;
  if (rank < 0 || rank >= w->ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected a rank from 0 to %d, found %d", w->ranks - 1, rank);
  rank_slot *slot = &w->slot[rank];
  if (!atomic_compare_exchange_strong(&slot->state, &absent, HD_RANK_JOINING))
    return hd__fail(ctx, HD_E_USAGE, "rank %d is already taken by pid %d; give each rank its own number", rank,
                    slot->pid);
  slot->pid = (int32_t)getpid();
  slot->start = hd__process_start(0);
  w->rank = rank;
  atomic_store(&slot->state, HD_RANK_JOINED);
  atomic_fetch_add(&w->head->joined, 1);
  hd__word_wake(&w->head->joined);
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
  return hd__fail(ctx, HD_E_TIMEOUT,
                  "expected %d ranks to join within %g s, but rank%s %s%s did not; were all started?", w->ranks,
                  timeout_s, count == 1 ? "" : "s", missing, count > 16 ? ", ..." : "");
}

static hd_status wait_for_all(hd_local_group *w, hd_ctx *ctx, double timeout_s) {
  const double begin_s = hd__clock_s();
  unsigned joined;
  while ((int)(joined = atomic_load(&w->head->joined)) < w->ranks) {
    hd__word_wait(&w->head->joined, joined, HD_BARRIER_CHECK_MS * INT64_C(1000000));
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
  const bool is_here = w->process == hd__this_process();
  if (w->rank >= 0 && is_here)
    atomic_store(&w->slot[w->rank].state, HD_RANK_LEFT);
  if (hd__local_group_cluster(w) && is_here)
    hd__cluster_close(hd__local_group_cluster(w), atomic_load(&w->record->state) == 0);
  release(w);
}
