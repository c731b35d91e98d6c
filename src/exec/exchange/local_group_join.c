/* Creating, joining and leaving a local group: its memory file, its ranks, and their watcher; see
 * local_group_join.h. */
#include "exec/exchange/local_group_join.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "base/version.h"
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

static const double TIMEOUT_S = 60;

static hd_status make(hd_local_group **out, hd_ctx *ctx) {
  *out = NULL;
  hd_local_group *group;
  HD_TRY(HD_NEW(group, 1, ctx, "out of memory for the group of ranks"));
  group->fd = group->rank = -1;
  group->process = hd__this_process();
  group->timeout_s = TIMEOUT_S;
  group->cache = -2;
  if (gethostname(group->host, sizeof group->host - 1) != 0)
    snprintf(group->host, sizeof group->host, "this host");
  *out = group;
  return HD_OK;
}

static void release(hd_local_group *group) {
  hd__segment_destroy(&group->map);
  if (group->fd >= 0)
    close(group->fd);
  hd__free(group);
}

static hd_status no_memory_file(hd_ctx *ctx) {
  return hd__fail(ctx, HD_E_SYSTEM, "cannot create a memory file for the ranks to share: %s", strerror(errno));
}

/* Maps the part of the file before the blocks, for a group of `ranks`. */
static hd_status map_head(hd_local_group *group, hd_ctx *ctx, int ranks) {
  HD_TRY(hd__segment_map(&group->map, ctx, group->fd, 0, hd__local_group_lay_out(group, NULL, ranks),
                         "the group of ranks"));
  hd__local_group_lay_out(group, group->map.base, ranks);
  group->ranks = ranks;
  return HD_OK;
}

static hd_status found(hd_local_group *group, hd_ctx *ctx, int ranks, bool parented) {
  const int64_t size = (int64_t)((hd__local_group_lay_out(group, NULL, ranks) + HD_SEGMENT_ALIGN - 1) /
                                 HD_SEGMENT_ALIGN * HD_SEGMENT_ALIGN);
  group->fd = hd__memory_file("heddle-ranks", size, true);
  if (group->fd < 0)
    return no_memory_file(ctx);
  HD_TRY(map_head(group, ctx, ranks));
  group->head->version = hd__version_hash();
  group->head->ranks = ranks;
  atomic_store(&group->head->used, size);
  if (parented) {
    group->head->parent = (int32_t)getpid();
    group->head->parent_start = hd__process_start(0);
  }
  for (int r = 0; r < ranks; r++)
    atomic_store(&group->slot[r].step, -1);
  atomic_store_explicit(&group->head->magic, GROUP_MAGIC, memory_order_release);
  return HD_OK;
}

hd_status hd__local_group_found(hd_local_group **out, hd_ctx *ctx, int ranks, bool parented) {
  *out = NULL;
  if (ranks < 1 || ranks > HD_LOCAL_GROUP_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected 1 to %d ranks, found %d", HD_LOCAL_GROUP_MOST_RANKS, ranks);
  hd_local_group *group;
  HD_TRY(make(&group, ctx));
  hd_status status = found(group, ctx, ranks, parented);
  if (status == HD_OK)
    *out = group;
  else
    release(group);
  return status;
}

static hd_status refuse_file(hd_ctx *ctx, int fd, const char *found) {
  return hd__fail(
      ctx, HD_E_USAGE,
      "expected the memory of the ranks at descriptor %d, found %s; start the ranks with `heddle launch` of "
      "this version, and do not close their descriptors",
      fd, found);
}

/* A descriptor may come from another program's environment, or over a socket. A memory file of this user that is sealed
 * against shrinking is safe to map; its head, read into private memory, gives its minimum length. */
static hd_status read_head(int *ranks, hd_ctx *ctx, int fd) {
  hd_local_group sizes;
  group_head head;
  struct stat file;
  char found[96];
  if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head || head.magic != GROUP_MAGIC || fstat(fd, &file) != 0)
    return refuse_file(ctx, fd, "a different file or none");
  if (head.version != hd__version_hash() || head.ranks < 1 || head.ranks > HD_LOCAL_GROUP_MOST_RANKS)
    return refuse_file(ctx, fd, "that of another version of heddle");
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

static hd_status take_slot(hd_local_group *group, hd_ctx *ctx, int rank) {
  int absent = HD_RANK_ABSENT;
  if (rank < 0 || rank >= group->ranks)
    return hd__fail(ctx, HD_E_USAGE, "expected a rank from 0 to %d, found %d", group->ranks - 1, rank);
  rank_slot *slot = &group->slot[rank];
  if (!atomic_compare_exchange_strong(&slot->state, &absent, HD_RANK_JOINING))
    return hd__fail(ctx, HD_E_USAGE, "rank %d is already taken by pid %d; give each rank its own number", rank,
                    slot->pid);
  slot->pid = (int32_t)getpid();
  slot->start = hd__process_start(0);
  group->rank = rank;
  atomic_store(&slot->state, HD_RANK_JOINED);
  atomic_fetch_add(&group->head->joined, 1);
  hd__word_wake(&group->head->joined);
  return HD_OK;
}

/* Before the watcher starts: finds a rank that joined and ended, or a parent that ended. */
static void check_processes(hd_local_group *group) {
  const group_head *head = group->head;
  if (head->parent && hd__process_read(head->parent, head->parent_start).has_ended)
    hd__local_group_break(group, &(hd_fault){.kind = HD_FAULT_PARENT, .pid = head->parent, .step = -1});
  for (int r = 0; r < group->ranks; r++) {
    hd_process_state process;
    if (!hd__local_group_lost(&process, group, r))
      continue;
    const hd_rank_view view = hd__local_group_view(group, r);
    hd_fault fault = {.kind = HD_FAULT_GONE, .rank = r, .pid = view.pid, .step = view.step};
    if (process.end_is_known)
      hd__fault_of_end(&fault, process.end);
    hd__local_group_break(group, &fault);
  }
}

static hd_status ranks_missing(const hd_local_group *group, hd_ctx *ctx, double timeout_s) {
  char missing[160] = "";
  int count = 0;
  for (int r = 0; r < group->ranks; r++) {
    if (atomic_load(&group->slot[r].state) != HD_RANK_ABSENT)
      continue;
    const size_t at = strlen(missing);
    if (count++ < 16)
      snprintf(missing + at, sizeof missing - at, "%s%d", at ? ", " : "", r);
  }
  return hd__fail(ctx, HD_E_TIMEOUT,
                  "expected %d ranks to join within %g s, but rank%s %s%s did not; were all started?", group->ranks,
                  timeout_s, count == 1 ? "" : "s", missing, count > 16 ? ", ..." : "");
}

static hd_status wait_for_all(hd_local_group *group, hd_ctx *ctx, double timeout_s) {
  const double begin_s = hd__clock_s();
  unsigned joined;
  while ((int)(joined = atomic_load(&group->head->joined)) < group->ranks) {
    hd__word_wait(&group->head->joined, joined, HD_BARRIER_CHECK_MS * INT64_C(1000000));
    check_processes(group);
    HD_TRY(hd__local_group_check(group, ctx));
    if (hd__clock_s() - begin_s > timeout_s)
      return ranks_missing(group, ctx, timeout_s);
  }
  return HD_OK;
}

static hd_status hold(hd_local_group *group, hd_ctx *ctx, int fd) {
  int ranks;
  HD_TRY(read_head(&ranks, ctx, fd));
  group->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  return group->fd < 0 ? no_memory_file(ctx) : map_head(group, ctx, ranks);
}

hd_status hd__local_group_hold(hd_local_group **out, hd_ctx *ctx, int fd) {
  hd_local_group *group;
  HD_TRY(make(&group, ctx));
  hd_status status = hold(group, ctx, fd);
  *out = status == HD_OK ? group : NULL;
  if (status != HD_OK)
    release(group);
  return status;
}

static hd_status join(hd_local_group *group, hd_ctx *ctx, int fd, int rank, double timeout_s) {
  HD_TRY(hold(group, ctx, fd));
  HD_TRY(take_slot(group, ctx, rank));
  HD_TRY(wait_for_all(group, ctx, timeout_s));
  hd__log_rank(rank);
  HD_TRY(hd__log_start(ctx));
  HD_LOG(RANKS, "joined the %d ranks of this host, process %d", group->ranks, (int)getpid());
  return group->ranks > 1 || group->head->parent ? hd__watch_start(&group->watch, ctx, group) : HD_OK;
}

hd_status hd__local_group_join(hd_local_group **out, hd_ctx *ctx, int fd, int rank, double timeout_s) {
  hd_local_group *group;
  HD_TRY(make(&group, ctx));
  *out = NULL;
  hd_status status = join(group, ctx, fd, rank, timeout_s);
  if (status == HD_OK)
    *out = group;
  else
    hd__local_group_leave(group);
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

void hd__local_group_leave(hd_local_group *group) {
  if (!group)
    return;
  hd__watch_end(group->watch);
  const bool is_here = group->process == hd__this_process();
  if (group->rank >= 0 && is_here) {
    HD_LOG(RANKS, "leaves");
    atomic_store(&group->slot[group->rank].state, HD_RANK_LEFT);
  }
  if (hd__local_group_cluster(group) && is_here)
    hd__cluster_close(hd__local_group_cluster(group), atomic_load(&group->record->state) == 0);
  release(group);
}
