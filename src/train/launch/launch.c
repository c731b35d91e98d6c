/* The parent of ranks: starts them, waits for their ends, ends the remaining ones after a loss, makes the emergency
 * save, restarts the ranks. */
#include "heddle/launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sized_struct.h"
#include "exec/exchange/rendezvous.h"
#include "exec/exchange/local_group_join.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/spawn.h"
#include "train/launch/supervisor.h"
#include "train/checkpoint/emergency_save.h"

enum { TICK_MS = 50 };

/* After a rank was lost: when the remaining ranks get SIGTERM, and when they get SIGKILL. */
static const double ASK_S = 1, KILL_S = 6;

/* How much later if all ranks were asked to end and may have something to save. */
static const double SAVE_S = 60;

typedef struct child {
  pid_t pid; /* 0: ended, or not started */
  int fd;    /* becomes readable at its end; -1 after that, and where the system gives none: the child is then polled */
  int end;   /* wait status, as of waitpid */
} child;

typedef struct launch {
  const hd_launch_settings *is;
  hd_launch_result *out;
  hd_local_group *local;
  child *child;
  int left;            /* ranks that have not ended */
  int first;           /* the first rank that failed; -1: none */
  bool fault_reported; /* the group's fault was reported */
  double lost_s;       /* when the first rank was lost, or counts as lost; 0: none */
  int sent_signal;     /* 0, or the signal that was sent to the remaining ranks */
  char restart[HD_PATH_BYTES + 32];
  char **program_argv; /* this program's arguments, where it starts itself again */
} launch;

static void note(const launch *l, const char *line) {
  if (l->is->note)
    l->is->note(l->is->user, line);
}

/* ---- Starting ---- */

/* A TCP port that is free at present, for programs that rendezvous over TCP. */
static int free_port(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 29500;
  if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
      getsockname(fd, (struct sockaddr *)&at, &length) == 0)
    port = ntohs(at.sin_port);
  if (fd >= 0)
    close(fd);
  return port;
}

static hd_status start_rank(launch *l, hd_ctx *ctx, int rank, int port) {
  enum { NUMBERS = 5, GROUP = NUMBERS, ADDRESS, RESTART, VARIABLES };
  const int ranks = l->is->ranks;
  const struct {
    const char *name;
    int value;
  } numbers[NUMBERS] = {
      {"RANK", rank}, {"LOCAL_RANK", rank}, {"WORLD_SIZE", ranks}, {"LOCAL_WORLD_SIZE", ranks}, {"MASTER_PORT", port}};
  char text[GROUP + 1][64];
  const char *set[VARIABLES + 1] = {
      [GROUP] = text[GROUP], [ADDRESS] = "MASTER_ADDR=127.0.0.1", [RESTART] = l->restart[0] ? l->restart : NULL};
  for (int i = 0; i < NUMBERS; i++) {
    snprintf(text[i], sizeof text[i], "%s=%d", numbers[i].name, numbers[i].value);
    set[i] = text[i];
  }
  snprintf(text[GROUP], sizeof text[GROUP], HD_LOCAL_GROUP_VARIABLE "=%d/%d", rank, ranks);
  child *c = &l->child[rank];
  const hd_spawn_how how = {.argv = l->is->argv ? l->is->argv : l->program_argv,
                            .program = l->is->argv ? l->is->argv[0] : NULL,
                            .set = set,
                            .fd = hd__local_group_fd(l->local)};
  HD_TRY(hd__spawn(&c->pid, ctx, &how));
  l->left++;
  c->fd = hd__child_open(c->pid);
  return HD_OK;
}

static void signal_all(launch *l, int number) {
  for (int r = 0; r < l->is->ranks; r++)
    hd__child_signal(l->child[r].fd, l->child[r].pid, number);
}

static hd_status start_all(launch *l, hd_ctx *ctx) {
  const int ranks = l->is->ranks, port = free_port();
  HD_TRY(hd__local_group_found(&l->local, ctx, ranks, true));
  memset(l->child, 0, (size_t)ranks * sizeof *l->child);
  l->left = l->sent_signal = 0;
  l->first = -1;
  l->fault_reported = false;
  l->lost_s = 0;
  for (int r = 0; r < ranks; r++)
    l->child[r].fd = -1;
  for (int r = 0; r < ranks; r++)
    HD_TRY(start_rank(l, ctx, r, port));
  return HD_OK;
}

/* ---- Waiting ---- */

/* Reports an end to the other ranks. A rank that left the run first and then failed is no loss to them. */
static void report_end(launch *l, int rank, int end) {
  const hd_rank_view view = hd__local_group_view(l->local, rank);
  hd_fault fault = {.rank = rank, .pid = l->child[rank].pid, .step = view.step};
  hd__fault_of_end(&fault, end);
  if (view.state != HD_RANK_LEFT && (end != 0 || view.state == HD_RANK_JOINED))
    hd__local_group_break(l->local, &fault);
}

/* LLVM's OpenMP runtime registers itself under its process's number, and removes that only at a proper exit. */
static void clear_traces(int pid) {
  char name[64];
  snprintf(name, sizeof name, "/dev/shm/__KMP_REGISTERED_LIB_%d_%d", pid, (int)getuid());
  unlink(name);
}

/* For kernels before 5.3, some containers and low limits, which give no descriptor of a process. */
static bool has_ended(const child *c) {
  siginfo_t info = {0};
  if (c->pid <= 0 || c->fd >= 0)
    return false;
  return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0 ? errno == ECHILD : info.si_pid != 0;
}

/* The wait status, as of waitpid. Where SIGCHLD is ignored the status is lost; then only a rank that left its run is
 * taken to have ended well. */
static int end_of(const launch *l, int rank) {
  siginfo_t info;
  if (waitid(P_PID, (id_t)l->child[rank].pid, &info, WEXITED | WNOWAIT) == 0)
    return info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
  return hd__local_group_view(l->local, rank).state == HD_RANK_LEFT ? 0 : EXIT_FAILURE << 8;
}

/* A rank that left its run and ended as after a signal: ranks of `heddle train` have then all agreed to stop. */
static bool ended_by_signal(const launch *l, int rank, int end) {
  const int code = WIFEXITED(end) ? WEXITSTATUS(end) - 128 : 0;
  return (code == SIGHUP || code == SIGINT || code == SIGTERM) &&
         hd__local_group_view(l->local, rank).state == HD_RANK_LEFT;
}

static void mark_lost(launch *l, double at_s) {
  if (l->lost_s == 0 || at_s < l->lost_s)
    l->lost_s = at_s;
}

static void note_end(launch *l, int rank) {
  child *c = &l->child[rank];
  int end = end_of(l, rank);
  report_end(l, rank, end); /* before the wait, which removes the status that others can read */
  clear_traces(c->pid);     /* before the wait, which frees the process number */
  (void)TEMP_FAILURE_RETRY(waitpid(c->pid, &end, 0));
  if (c->fd >= 0)
    close(c->fd);
  *c = (child){.fd = -1, .end = end};
  l->left--;
  if (end == 0)
    return;
  l->first = l->first >= 0 ? l->first : rank;
  mark_lost(l, hd__clock_s() + (ended_by_signal(l, rank, end) ? SAVE_S : 0));
}

/* Reports the group's fault. A silent rank may never end by itself, or resume later: it is killed at once. */
static void look_at_fault(launch *l) {
  hd_fault fault;
  char line[HD_FAULT_LINE_BYTES];
  if (l->fault_reported || !hd__local_group_fault(&fault, l->local))
    return;
  l->fault_reported = true;
  mark_lost(l, hd__clock_s());
  note(l, hd__fault_line(line, &fault));
  const bool silent = fault.kind == HD_FAULT_STOPPED || fault.kind == HD_FAULT_LATE;
  if (silent && fault.rank >= 0 && fault.rank < l->is->ranks)
    hd__child_signal(l->child[fault.rank].fd, l->child[fault.rank].pid, SIGKILL);
}

static void end_those_left(launch *l) {
  const double since_s = hd__clock_s() - l->lost_s;
  const int number = l->lost_s == 0 || since_s < ASK_S ? 0 : since_s < KILL_S ? SIGTERM : SIGKILL;
  if (number != l->sent_signal) {
    l->sent_signal = number;
    signal_all(l, number);
  }
}

static void pass_on(launch *l) {
  if (!l->is->signal || !*l->is->signal)
    return;
  signal_all(l, *l->is->signal);
  *l->is->signal = 0;
}

static hd_status wait_for_end(launch *l, hd_ctx *ctx) {
  struct pollfd *fd = hd__calloc((size_t)l->is->ranks, sizeof *fd);
  if (!fd) {
    signal_all(l, SIGKILL);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for %d ranks", l->is->ranks);
  }
  while (l->left > 0) {
    for (int r = 0; r < l->is->ranks; r++)
      fd[r] = (struct pollfd){.fd = l->child[r].fd, .events = POLLIN};
    int ready = poll(fd, (nfds_t)l->is->ranks, TICK_MS);
    pass_on(l);
    for (int r = 0; r < l->is->ranks; r++)
      if ((ready > 0 && fd[r].revents) || has_ended(&l->child[r]))
        note_end(l, r);
    look_at_fault(l);
    end_those_left(l);
  }
  hd__free(fd);
  return HD_OK;
}

/* ---- After the end ---- */

static void save_last_step(launch *l) {
  char line[2 * HD_PATH_BYTES + 128], run[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  hd_status status = hd__emergency_save(&l->out->saved_step, run, NULL, &quiet, l->local);
  if (status == HD_E_USAGE)
    return; /* nothing to save */
  if (status == HD_OK) {
    snprintf(l->out->run, sizeof l->out->run, "%s", run);
    const bool restarts = l->out->restarts < l->is->max_restarts;
    snprintf(line, sizeof line, "saved step %lld in %s%s%s", (long long)l->out->saved_step, run,
             restarts ? "" : "; continue with: heddle train --resume ", restarts ? "" : run);
    snprintf(l->restart, sizeof l->restart, "HEDDLE_RESTART=%s", run);
  } else if (status == HD_E_UNSUPPORTED) {
    snprintf(line, sizeof line, "%s", quiet.message);
    if (l->out->saved_step >= 0)
      snprintf(l->restart, sizeof l->restart, "HEDDLE_RESTART=%s", run);
    l->out->saved_step = -1;
  } else {
    snprintf(line, sizeof line, "step %lld could not be saved: %.900s", (long long)l->out->saved_step, quiet.message);
    l->out->saved_step = -1;
  }
  note(l, line);
}

/* After all ranks have ended: reports the first failed rank, and how it failed. */
static hd_status conclude(launch *l, hd_ctx *ctx, const hd_fault *fault) {
  char line[HD_FAULT_LINE_BYTES];
  const bool names_rank = fault && fault->kind != HD_FAULT_PARENT && fault->rank < l->is->ranks;
  const int rank = names_rank ? fault->rank : l->first;
  if (rank < 0)
    return HD_OK;
  const int end = l->child[rank].end;
  l->out->failed_rank = rank;
  l->out->exit_code = WIFSIGNALED(end) ? 128 + WTERMSIG(end) : WEXITSTATUS(end) ? WEXITSTATUS(end) : 1;
  if (fault)
    return hd__fail(ctx, HD_E_PEER, "%s", hd__fault_line(line, fault));
  return hd__fail(ctx, HD_E_PEER, "rank %d ended with exit status %d", rank, l->out->exit_code);
}

/* Runs the ranks once. *lost: a rank was lost, and a restart makes sense. */
static hd_status run_once(launch *l, hd_ctx *ctx, bool *lost) {
  hd_fault fault;
  hd_ctx later = {0};
  *lost = false;
  hd_status status = start_all(l, ctx);
  if (!l->local)
    return status;
  if (status != HD_OK)
    signal_all(l, SIGKILL);
  hd_status ended = wait_for_end(l, status == HD_OK ? ctx : &later);
  status = status == HD_OK ? ended : status;
  if (status == HD_OK) {
    *lost = hd__local_group_fault(&fault, l->local);
    if (*lost)
      save_last_step(l);
    status = conclude(l, ctx, *lost ? &fault : NULL);
  }
  hd__local_group_leave(l->local);
  l->local = NULL;
  return status;
}

static hd_status run_with_restarts(launch *l, hd_ctx *ctx) {
  for (;;) {
    char line[128];
    bool lost;
    hd_status status = run_once(l, ctx, &lost);
    if (status == HD_OK || !lost || l->out->restarts >= l->is->max_restarts)
      return status;
    l->out->restarts++;
    snprintf(line, sizeof line, "starting all %d ranks again, restart %d of %d", l->is->ranks, l->out->restarts,
             l->is->max_restarts);
    note(l, line);
  }
}

static hd_status launch_ranks(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *settings) {
  launch l = {.is = settings, .out = out};
  *out = (hd_launch_result){.failed_rank = -1, .saved_step = -1};
  if (settings->hosts)
    return hd__launch_hosts(out, ctx, settings);
  if (settings->ranks < 1 || settings->ranks > HD_LOCAL_GROUP_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected 1 to %d ranks, found %d; set -n or --procs to one of these",
                    HD_LOCAL_GROUP_MOST_RANKS, settings->ranks);
  l.child = hd__calloc((size_t)settings->ranks, sizeof *l.child);
  hd_status status = HD_ALLOCATED(l.child, ctx, "out of memory for %d ranks", settings->ranks);
  if (status == HD_OK && !settings->argv)
    status = hd__spawn_arguments(&l.program_argv, ctx);
  HD_THEN(status, run_with_restarts(&l, ctx));
  hd__free(l.child);
  hd__free(l.program_argv);
  return status;
}

hd_status hd_launch(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *settings) {
  hd_launch_result result;
  hd_launch_settings wanted;
  HD_TRY(hd__struct_check(ctx, out, sizeof result, "hd_launch_result"));
  HD_TRY(hd__struct_read(&wanted, ctx, settings, sizeof wanted, "hd_launch_settings"));
  const hd_status status = launch_ranks(&result, ctx, &wanted);
  hd__struct_write(out, &result, sizeof result);
  return status;
}

int hd_launched(int32_t *rank, int32_t *ranks) {
  int this_rank = 0, all = 1;
  hd_start start;
  hd_ctx quiet = {0};
  const bool by_us = hd__local_group_launched(&this_rank, &all);
  if (!by_us)
    hd__start_read(&start, &quiet); /* creating a group will report the error */
  const bool valid = !by_us && start.rank >= 0 && start.rank < start.ranks;
  *rank = valid ? start.rank : this_rank;
  *ranks = valid ? start.ranks : all;
  return by_us || start.is_given;
}

hd_status hd_spawn(int32_t *rank, hd_ctx *ctx, int32_t ranks) {
  int32_t of;
  hd_launch_result result;
  if (hd_launched(rank, &of))
    return HD_OK;
  *rank = -1;
  return launch_ranks(&result, ctx, &(hd_launch_settings){.ranks = ranks});
}
