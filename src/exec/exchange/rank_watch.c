/* The thread that watches the other ranks: see rank_watch.h. */
#include "exec/exchange/rank_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/event_log.h"
#include "exec/exchange/local_group_state.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/thread_start.h"

enum { TICK_MS = 100, TICKS_PER_CHECK = 2, LINE_S = 1 };

/* How long the parent may take to record how a rank ended, and a process to acknowledge a fault. */
static const double PARENT_S = 0.15, GRACE_S = 0.4;

struct hd_watch {
  hd_local_group *local;
  hd_thread thread;
  struct pollfd *fd; /* of each rank, of the parent, and of the pipe that ends the thread; -1: checked without one */
  int fds, end;      /* end: the side of a pipe whose closing ends the thread */
  int stopped_rank;  /* found stopped by the last check, -1: none */
};

static void note_end(hd_local_group *local, int rank) {
  const hd_rank_view view = hd__local_group_view(local, rank);
  const hd_process_state process = hd__process_read(view.pid, view.start);
  hd_fault fault = {.kind = HD_FAULT_GONE, .rank = rank, .pid = view.pid, .step = view.step};
  if (process.end_is_known)
    hd__fault_of_end(&fault, process.end);
  else if (hd__local_group_is_parented(local)) /* the parent waited for the process, and records how it ended */
    for (double end_s = hd__clock_s() + PARENT_S;
         hd__clock_s() < end_s && !atomic_load(hd__local_group_broken_word(local));)
      poll(NULL, 0, 5);
  hd__local_group_break(local, &fault);
}

static void note_parent(hd_watch *w) {
  uint64_t start;
  hd__local_group_break(
      w->local, &(hd_fault){.kind = HD_FAULT_PARENT, .pid = hd__local_group_parent(w->local, &start), .step = -1});
}

static void note_ends(hd_watch *w) {
  const int ranks = hd__local_group_ranks(w->local);
  for (int i = 0; i < w->fds - 1; i++) {
    if (w->fd[i].fd < 0 || !w->fd[i].revents)
      continue;
    close(w->fd[i].fd);
    w->fd[i].fd = -1;
    if (i < ranks && hd__local_group_view(w->local, i).state == HD_RANK_JOINED)
      note_end(w->local, i);
    if (i == ranks)
      note_parent(w);
  }
}

/* The next rank that is still there, or this one. */
static int next_rank(const hd_watch *w) {
  const int ranks = hd__local_group_ranks(w->local), this_rank = hd__local_group_rank(w->local);
  for (int i = 1; i < ranks; i++) {
    const int rank = (this_rank + i) % ranks;
    if (hd__local_group_view(w->local, rank).state == HD_RANK_JOINED)
      return rank;
  }
  return this_rank;
}

static void check_for_stopped(hd_watch *w) {
  const int rank = next_rank(w);
  const hd_rank_view view = hd__local_group_view(w->local, rank);
  if (rank == hd__local_group_rank(w->local) || hd__process_read(view.pid, view.start).state != 'T') {
    w->stopped_rank = -1;
    return;
  }
  if (w->stopped_rank == rank)
    hd__local_group_break(w->local,
                          &(hd_fault){.kind = HD_FAULT_STOPPED, .rank = rank, .pid = view.pid, .step = view.step});
  w->stopped_rank = rank;
}

static void leave(int number) { _exit(1); }

/* A write to a pipe that no process reads, or to a stopped terminal, may block forever: an alarm ends it. One write,
 * without the buffer of stderr, whose lock another thread may hold. */
static void say_and_exit(const char *line) {
  const struct sigaction action = {.sa_handler = leave};
  const struct itimerval end = {.it_value = {.tv_sec = LINE_S}};
  char text[HD_FAULT_LINE_BYTES + 16];
  sigset_t set;
  const int length = snprintf(text, sizeof text, "heddle: %s\n", line);
  sigemptyset(&set);
  sigaddset(&set, SIGALRM);
  if (sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &end, NULL) == 0 &&
      pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0)
    (void)!write(STDERR_FILENO, text, (size_t)length);
  _exit(1);
}

/* Ends a process that has not acknowledged the fault: it may be in code that never checks for one. */
static void end_process(hd_watch *w) {
  hd_fault fault;
  char line[HD_FAULT_LINE_BYTES];
  if (atomic_load(&w->local->acknowledged) || !hd__local_group_fault(&fault, w->local))
    return;
  say_and_exit(hd__fault_line(line, &fault));
}

/* Checks processes without a descriptor: those that ended before one was opened, and all where the system gives none
 * (kernels before 5.3, some containers, beyond `ulimit -n`). */
static void check_for_ended(hd_watch *w) {
  const int ranks = hd__local_group_ranks(w->local);
  for (int r = 0; r < ranks; r++) {
    hd_process_state process;
    if (w->fd[r].fd < 0 && r != hd__local_group_rank(w->local) && hd__local_group_lost(&process, w->local, r))
      note_end(w->local, r);
  }
  uint64_t start;
  const int parent = hd__local_group_parent(w->local, &start);
  if (parent && w->fd[ranks].fd < 0 && hd__process_read(parent, start).has_ended)
    note_parent(w);
}

static void *watch(void *arg) {
  hd_watch *w = arg;
  double broken_s = 0;
  hd__log_thread("watch", -1);
  for (int tick = 0;; tick++) {
    if (poll(w->fd, (nfds_t)w->fds, TICK_MS) > 0)
      note_ends(w);
    if (w->fd[w->fds - 1].revents)
      return NULL;
    if (atomic_load(hd__local_group_broken_word(w->local))) {
      broken_s = broken_s > 0 ? broken_s : hd__clock_s();
      if (hd__clock_s() - broken_s > GRACE_S)
        end_process(w);
    } else if (tick % TICKS_PER_CHECK == 0) {
      check_for_ended(w);
      check_for_stopped(w);
    }
  }
}

static void watch_process(struct pollfd *slot, int pid, uint64_t start) {
  *slot = (struct pollfd){.fd = hd__process_open(pid, start), .events = POLLIN};
}

static hd_status open_all(hd_watch *w, hd_ctx *ctx) {
  const int ranks = hd__local_group_ranks(w->local), this_rank = hd__local_group_rank(w->local);
  uint64_t start;
  w->fds = ranks + 2;
  HD_TRY(HD_NEW(w->fd, w->fds, ctx, "out of memory for watching %d ranks", ranks));
  for (int r = 0; r < ranks; r++) {
    const hd_rank_view view = hd__local_group_view(w->local, r);
    watch_process(&w->fd[r], r == this_rank ? 0 : view.pid, view.start);
  }
  const int parent = hd__local_group_parent(w->local, &start);
  watch_process(&w->fd[ranks], parent, start);
  int end[2];
  const int failed = pipe2(end, O_CLOEXEC);
  w->end = failed ? -1 : end[1];
  w->fd[ranks + 1] = (struct pollfd){.fd = failed ? -1 : end[0], .events = POLLIN};
  if (failed)
    return hd__fail(ctx, HD_E_SYSTEM, "cannot get a descriptor for watching the ranks: %s; raise `ulimit -n`",
                    strerror(errno));
  return HD_OK;
}

static hd_status start_thread(hd_watch *w, hd_ctx *ctx) {
  const int error = hd__thread_start(&w->thread, watch, w);
  if (error)
    return hd__fail(ctx, HD_E_SYSTEM, "cannot start the thread that watches the ranks: %s; raise `ulimit -u`",
                    strerror(error));
  return HD_OK;
}

static void release(hd_watch *w) {
  for (int i = 0; w->fd && i < w->fds; i++)
    if (w->fd[i].fd >= 0)
      close(w->fd[i].fd);
  if (w->end >= 0)
    close(w->end);
  hd__free(w->fd);
  hd__free(w);
}

hd_status hd__watch_start(hd_watch **out, hd_ctx *ctx, hd_local_group *local) {
  HD_TRY(HD_NEW(*out, 1, ctx, "out of memory for watching the ranks"));
  hd_watch *w = *out;
  w->local = local;
  w->stopped_rank = w->end = -1;
  hd_status status = open_all(w, ctx);
  HD_THEN(status, start_thread(w, ctx));
  return HD_CREATED(status, out, release);
}

void hd__watch_end(hd_watch *w) {
  if (!w)
    return;
  close(w->end);
  w->end = -1;
  hd__thread_join(&w->thread);
  release(w);
}
