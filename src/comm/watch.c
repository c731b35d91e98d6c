/* The thread that watches the other ranks: see watch.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "comm/watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sys/clock.h"
#include "sys/process.h"

enum { TICK_MS = 100, TICKS_PER_LOOK = 2 };

/* How long the parent may take to say how a rank ended, and a process to notice that its world is broken. */
static const double PARENT_S = 0.15, GRACE_S = 0.4;

struct hd_watch {
  hd_world *world;
  pthread_t thread;
  struct pollfd *fd; /* of each rank, then of the parent, then what ends the thread; -1: looked after, if need be */
  int fds, end;
  int stopped_rank; /* found stopped at the last look, -1: none */
  atomic_bool heard;
};

static void note_end(hd_world *world, int rank) {
  const hd_rank_view view = hd__world_view(world, rank);
  const hd_process_look look = hd__process_look(view.pid, view.start);
  hd_fault fault = {.kind = HD_FAULT_GONE, .rank = rank, .pid = view.pid, .step = view.step};
  if (look.knows_end)
    hd__fault_of_end(&fault, look.end);
  else if (hd__world_is_parented(world)) /* it waited for the process, and knows */
    for (double end_s = hd__clock_s() + PARENT_S; hd__clock_s() < end_s && !atomic_load(hd__world_broken_word(world));)
      poll(NULL, 0, 5);
  hd__world_break(world, &fault);
}

static void note_parent(hd_watch *w) {
  uint64_t start;
  hd__world_break(w->world,
                  &(hd_fault){.kind = HD_FAULT_PARENT, .pid = hd__world_parent(w->world, &start), .step = -1});
}

static void note_ends(hd_watch *w) {
  const int ranks = hd__world_ranks(w->world);
  for (int i = 0; i < w->fds - 1; i++) {
    if (w->fd[i].fd < 0 || !w->fd[i].revents)
      continue;
    close(w->fd[i].fd);
    w->fd[i].fd = -1;
    if (i < ranks && hd__world_view(w->world, i).state == HD_RANK_JOINED)
      note_end(w->world, i);
    if (i == ranks)
      note_parent(w);
  }
}

/* The next rank that is still there, or this one. */
static int next_rank(const hd_watch *w) {
  const int ranks = hd__world_ranks(w->world), mine = hd__world_rank(w->world);
  for (int i = 1; i < ranks; i++) {
    const int rank = (mine + i) % ranks;
    if (hd__world_view(w->world, rank).state == HD_RANK_JOINED)
      return rank;
  }
  return mine;
}

static void look_for_stopped(hd_watch *w) {
  const int rank = next_rank(w);
  const hd_rank_view view = hd__world_view(w->world, rank);
  if (rank == hd__world_rank(w->world) || hd__process_look(view.pid, view.start).state != 'T') {
    w->stopped_rank = -1;
    return;
  }
  if (w->stopped_rank == rank)
    hd__world_break(w->world, &(hd_fault){.kind = HD_FAULT_STOPPED, .rank = rank, .pid = view.pid, .step = view.step});
  w->stopped_rank = rank;
}

/* The process may be anywhere, perhaps in code that never looks: it must not stay behind. */
static void end_process(hd_watch *w) {
  hd_fault fault;
  char line[HD_FAULT_LINE_BYTES];
  if (atomic_load(&w->heard) || !hd__world_fault(&fault, w->world))
    return;
  fprintf(stderr, "heddle: %s\n", hd__fault_line(line, &fault));
  fflush(stderr);
  _exit(1);
}

/* Ends that no descriptor tells of: of those that were gone before there was one, and of all where the system gives
 * none (kernels before 5.3, some containers, beyond `ulimit -n`). */
static void look_for_ended(hd_watch *w) {
  const int ranks = hd__world_ranks(w->world);
  for (int r = 0; r < ranks; r++) {
    const hd_rank_view view = hd__world_view(w->world, r);
    if (w->fd[r].fd < 0 && r != hd__world_rank(w->world) && view.state == HD_RANK_JOINED &&
        hd__process_look(view.pid, view.start).has_ended)
      note_end(w->world, r);
  }
  uint64_t start;
  const int parent = hd__world_parent(w->world, &start);
  if (parent && w->fd[ranks].fd < 0 && hd__process_look(parent, start).has_ended)
    note_parent(w);
}

static void *watch(void *arg) {
  hd_watch *w = arg;
  double broken_s = 0;
  for (int tick = 0;; tick++) {
    if (poll(w->fd, (nfds_t)w->fds, TICK_MS) > 0)
      note_ends(w);
    if (w->fd[w->fds - 1].revents)
      return NULL;
    if (atomic_load(hd__world_broken_word(w->world))) {
      broken_s = broken_s > 0 ? broken_s : hd__clock_s();
      if (hd__clock_s() - broken_s > GRACE_S)
        end_process(w);
    } else if (tick % TICKS_PER_LOOK == 0) {
      look_for_ended(w);
      look_for_stopped(w);
    }
  }
}

static void watch_process(struct pollfd *slot, int pid) {
  *slot = (struct pollfd){.fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1, .events = POLLIN};
}

static hd_status open_all(hd_watch *w, hd_ctx *ctx) {
  const int ranks = hd__world_ranks(w->world), mine = hd__world_rank(w->world);
  uint64_t start;
  w->fds = ranks + 2;
  w->fd = hd__calloc((size_t)w->fds, sizeof *w->fd);
  if (!w->fd)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for watching %d ranks", ranks);
  for (int r = 0; r < ranks; r++)
    watch_process(&w->fd[r], r == mine ? 0 : hd__world_view(w->world, r).pid);
  watch_process(&w->fd[ranks], hd__world_parent(w->world, &start));
  w->end = eventfd(0, EFD_CLOEXEC);
  w->fd[ranks + 1] = (struct pollfd){.fd = w->end, .events = POLLIN};
  if (w->end < 0)
    return hd__fail(ctx, HD_E_SYSTEM, "expected a descriptor for watching the ranks, found: %s; raise `ulimit -n`",
                    strerror(errno));
  return HD_OK;
}

static hd_status start_thread(hd_watch *w, hd_ctx *ctx) {
  sigset_t all, before;
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&w->thread, NULL, watch, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error)
    return hd__fail(ctx, HD_E_SYSTEM, "cannot start the thread that watches the ranks: %s; raise `ulimit -u`",
                    strerror(error));
  return HD_OK;
}

static void release(hd_watch *w) {
  for (int i = 0; w->fd && i < w->fds; i++)
    if (w->fd[i].fd >= 0)
      close(w->fd[i].fd);
  hd__free(w->fd);
  hd__free(w);
}

hd_status hd__watch_start(hd_watch **out, hd_ctx *ctx, hd_world *world) {
  *out = NULL;
  hd_watch *w = hd__calloc(1, sizeof *w);
  if (!w)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for watching the ranks");
  w->world = world;
  w->stopped_rank = -1;
  hd_status status = open_all(w, ctx);
  if (status == HD_OK)
    status = start_thread(w, ctx);
  if (status == HD_OK)
    *out = w;
  else
    release(w);
  return status;
}

void hd__watch_end(hd_watch *w) {
  if (!w)
    return;
  const uint64_t one = 1;
  if (write(w->end, &one, sizeof one) == (ssize_t)sizeof one)
    pthread_join(w->thread, NULL);
  release(w);
}

void hd__watch_heard(hd_watch *w) { atomic_store(&w->heard, true); }
