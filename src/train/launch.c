/* The parent of ranks: starts them, sees them end, ends those that stay, saves what they trained, starts them again. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "heddle/launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "comm/rendezvous.h"
#include "comm/world.h"
#include "sys/clock.h"
#include "sys/spawn.h"
#include "train/launch_hosts.h"
#include "train/rescue.h"

enum { TICK_MS = 50, VARIABLES = 9, VARIABLE_BYTES = 64 };

/* After a rank was lost: when those that are still there are asked to end, and when they are killed. */
static const double ASK_S = 1, KILL_S = 6;

/* How much later that is where all were told to end, and may have something to save. */
static const double SAVE_S = 60;

typedef struct child {
  pid_t pid; /* 0: it has ended, or was not started */
  int fd;    /* that becomes readable at its end; -1 after it, and where the system gives none: then it is asked for */
  int end;   /* how it ended, as waitpid says */
} child;

typedef struct launch {
  const hd_launch_settings *is;
  hd_launch_result *out;
  hd_world *world;
  child *child;
  int left;      /* that have not ended */
  int first;     /* that ended badly; -1: none */
  bool told;     /* what broke their world */
  double lost_s; /* when the first was lost, or counts as lost; 0: none was */
  int asked;     /* 0, or the signal that was sent to those left */
  char restart[HD_PATH_BYTES + 32];
  char **own_argv; /* of this program, where it is started again */
  char *own_text;
} launch;

static void note(const launch *l, const char *line) {
  if (l->is->note)
    l->is->note(l->is->user, line);
}

/* ---- Starting ---- */

/* A port that nobody has just now: for programs that meet over TCP. */
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
  char text[VARIABLES][VARIABLE_BYTES];
  const char *set[VARIABLES + 2] = {0};
  const int ranks = l->is->ranks;
  int count = 0;
  const struct {
    const char *name;
    int value;
  } numbers[] = {
      {"RANK", rank}, {"LOCAL_RANK", rank}, {"WORLD_SIZE", ranks}, {"LOCAL_WORLD_SIZE", ranks}, {"MASTER_PORT", port}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    snprintf(text[count], VARIABLE_BYTES, "%s=%d", numbers[i].name, numbers[i].value);
    set[count] = text[count];
    count++;
  }
  snprintf(text[count], VARIABLE_BYTES, HD_WORLD_VARIABLE "=%d/%d", rank, ranks);
  set[count] = text[count];
  count++;
  set[count++] = "MASTER_ADDR=127.0.0.1";
  if (l->restart[0])
    set[count++] = l->restart;
  child *c = &l->child[rank];
  const hd_spawn_how how = {.argv = l->is->argv ? l->is->argv : l->own_argv,
                            .program = l->is->argv ? l->is->argv[0] : NULL,
                            .set = set,
                            .fd = hd__world_fd(l->world)};
  HD_TRY(hd__spawn(&c->pid, ctx, &how));
  l->left++;
  c->fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
  return HD_OK;
}

static void signal_all(launch *l, int number) {
  for (int r = 0; r < l->is->ranks; r++)
    if (l->child[r].pid > 0)
      kill(l->child[r].pid, number);
}

static hd_status start_all(launch *l, hd_ctx *ctx) {
  const int ranks = l->is->ranks, port = free_port();
  HD_TRY(hd__world_found(&l->world, ctx, ranks, true));
  memset(l->child, 0, (size_t)ranks * sizeof *l->child);
  l->left = l->asked = 0;
  l->first = -1;
  l->told = false;
  l->lost_s = 0;
  for (int r = 0; r < ranks; r++)
    l->child[r].fd = -1;
  for (int r = 0; r < ranks; r++)
    HD_TRY(start_rank(l, ctx, r, port));
  return HD_OK;
}

/* ---- Until they have ended ---- */

/* One that left the run first and then failed is no loss to the others. */
static void tell_ranks(launch *l, int rank, int end) {
  const hd_rank_view view = hd__world_view(l->world, rank);
  hd_fault fault = {.rank = rank, .pid = l->child[rank].pid, .step = view.step};
  hd__fault_of_end(&fault, end);
  if (view.state != HD_RANK_LEFT && (end != 0 || view.state == HD_RANK_JOINED))
    hd__world_break(l->world, &fault);
}

/* LLVM's OpenMP runtime registers itself by its process's number, and takes that back only at a proper end. */
static void clear_traces(int pid) {
  char name[64];
  snprintf(name, sizeof name, "/dev/shm/__KMP_REGISTERED_LIB_%d_%d", pid, (int)getuid());
  unlink(name);
}

/* Kernels before 5.3, some containers and low limits give no descriptor of a process. */
static bool has_ended(const child *c) {
  siginfo_t info = {0};
  if (c->pid <= 0 || c->fd >= 0)
    return false;
  return waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0 ? errno == ECHILD : info.si_pid != 0;
}

/* As waitpid says it. Where children are not waited for (SIGCHLD is ignored) nobody knows, and only a rank that left
 * its run is taken to have ended well. */
static int end_of(const launch *l, int rank) {
  siginfo_t info;
  if (waitid(P_PID, (id_t)l->child[rank].pid, &info, WEXITED | WNOWAIT) == 0)
    return info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
  return hd__world_view(l->world, rank).state == HD_RANK_LEFT ? 0 : EXIT_FAILURE << 8;
}

/* A rank that left its run and ended as a signal asks for: then ranks of `heddle train` have all agreed to stop. */
static bool was_asked(const launch *l, int rank, int end) {
  const int code = WIFEXITED(end) ? WEXITSTATUS(end) - 128 : 0;
  return (code == SIGHUP || code == SIGINT || code == SIGTERM) && hd__world_view(l->world, rank).state == HD_RANK_LEFT;
}

static void lose(launch *l, double at_s) {
  if (l->lost_s == 0 || at_s < l->lost_s)
    l->lost_s = at_s;
}

static void note_end(launch *l, int rank) {
  child *c = &l->child[rank];
  int end = end_of(l, rank);
  tell_ranks(l, rank, end); /* before it is waited for: until then others can see how it ended */
  clear_traces(c->pid);     /* while the number is still its own */
  while (waitpid(c->pid, &end, 0) < 0 && errno == EINTR) {
  }
  if (c->fd >= 0)
    close(c->fd);
  *c = (child){.fd = -1, .end = end};
  l->left--;
  if (end == 0)
    return;
  l->first = l->first >= 0 ? l->first : rank;
  lose(l, hd__clock_s() + (was_asked(l, rank, end) ? SAVE_S : 0));
}

/* A rank that the others gave up may never end by itself, or wake up and go on: it is killed at once. */
static void look_at_fault(launch *l) {
  hd_fault fault;
  char line[HD_FAULT_LINE_BYTES];
  if (l->told || !hd__world_fault(&fault, l->world))
    return;
  l->told = true;
  lose(l, hd__clock_s());
  note(l, hd__fault_line(line, &fault));
  const bool silent = fault.kind == HD_FAULT_STOPPED || fault.kind == HD_FAULT_LATE;
  if (silent && fault.rank >= 0 && fault.rank < l->is->ranks && l->child[fault.rank].pid > 0)
    kill(l->child[fault.rank].pid, SIGKILL);
}

static void end_those_left(launch *l) {
  const double since_s = hd__clock_s() - l->lost_s;
  const int number = l->lost_s == 0 || since_s < ASK_S ? 0 : since_s < KILL_S ? SIGTERM : SIGKILL;
  if (number != l->asked) {
    l->asked = number;
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

/* ---- Afterwards ---- */

static void rescue(launch *l) {
  char line[2 * HD_PATH_BYTES + 128], run[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  hd_status status = hd__rescue_save(&l->out->saved_step, run, NULL, &quiet, l->world);
  if (status == HD_E_USAGE)
    return; /* there was nothing to save */
  if (status == HD_OK) {
    snprintf(l->out->run, sizeof l->out->run, "%s", run);
    snprintf(line, sizeof line, "saved step %lld in %s; go on with: heddle train --resume %s",
             (long long)l->out->saved_step, run, run);
    snprintf(l->restart, sizeof l->restart, "HEDDLE_RESTART=%s", run);
  } else {
    snprintf(line, sizeof line, "step %lld could not be saved: %.900s", (long long)l->out->saved_step, quiet.message);
    l->out->saved_step = -1;
  }
  note(l, line);
}

/* All have ended: which of them failed first, and how. */
static hd_status conclude(launch *l, hd_ctx *ctx, const hd_fault *fault) {
  char line[HD_FAULT_LINE_BYTES];
  const int rank = fault && fault->kind != HD_FAULT_PARENT ? fault->rank : l->first;
  if (rank < 0)
    return HD_OK;
  const int end = l->child[rank].end;
  l->out->failed_rank = rank;
  l->out->exit_code = WIFSIGNALED(end) ? 128 + WTERMSIG(end) : WEXITSTATUS(end) ? WEXITSTATUS(end) : 1;
  if (fault)
    return hd__fail(ctx, HD_E_PEER, "%s", hd__fault_line(line, fault));
  return hd__fail(ctx, HD_E_PEER, "rank %d ended with exit status %d", rank, l->out->exit_code);
}

/* One life of the ranks. *lost: one was lost, and it is worth starting them again. */
static hd_status run_once(launch *l, hd_ctx *ctx, bool *lost) {
  hd_fault fault;
  hd_ctx later = {0};
  *lost = false;
  hd_status status = start_all(l, ctx);
  if (!l->world)
    return status;
  if (status != HD_OK)
    signal_all(l, SIGKILL);
  hd_status ended = wait_for_end(l, status == HD_OK ? ctx : &later);
  status = status == HD_OK ? ended : status;
  if (status == HD_OK) {
    *lost = hd__world_fault(&fault, l->world);
    if (*lost)
      rescue(l);
    status = conclude(l, ctx, *lost ? &fault : NULL);
  }
  hd__world_leave(l->world);
  l->world = NULL;
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

/* The arguments that this process was started with. */
static hd_status read_own_arguments(launch *l, hd_ctx *ctx) {
  size_t used = 0, room = 1 << 12, got, count = 0;
  FILE *file = fopen("/proc/self/cmdline", "re");
  if (!file)
    return hd__fail(ctx, HD_E_SYSTEM, "/proc/self/cmdline: expected this program's arguments, found: %s",
                    strerror(errno));
  l->own_text = hd__malloc(room + 1);
  while (l->own_text && (got = fread(l->own_text + used, 1, room - used, file)) > 0) {
    used += got;
    if (used == room) {
      char *longer = hd__realloc(l->own_text, (room *= 2) + 1);
      if (!longer)
        break;
      l->own_text = longer;
    }
  }
  fclose(file);
  for (size_t i = 0; l->own_text && i < used; i++)
    count += !l->own_text[i];
  l->own_argv = hd__calloc(count + 2, sizeof *l->own_argv);
  if (!l->own_text || !l->own_argv)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for this program's arguments");
  l->own_text[used] = 0;
  count = 0;
  for (char *at = l->own_text; at < l->own_text + used; at += strlen(at) + 1)
    l->own_argv[count++] = at;
  return HD_OK;
}

hd_status hd_launch(hd_launch_result *out, hd_ctx *ctx, const hd_launch_settings *settings) {
  launch l = {.is = settings, .out = out};
  *out = (hd_launch_result){.failed_rank = -1, .saved_step = -1};
  if (settings->hosts)
    return hd__launch_hosts(out, ctx, settings);
  if (settings->ranks < 1 || settings->ranks > HD_WORLD_MOST_RANKS)
    return hd__fail(ctx, HD_E_USAGE, "expected 1 to %d ranks, found %d", HD_WORLD_MOST_RANKS, settings->ranks);
  l.child = hd__calloc((size_t)settings->ranks, sizeof *l.child);
  hd_status status = l.child ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for %d ranks", settings->ranks);
  if (status == HD_OK && !settings->argv)
    status = read_own_arguments(&l, ctx);
  if (status == HD_OK)
    status = run_with_restarts(&l, ctx);
  hd__free(l.child);
  hd__free(l.own_argv);
  hd__free(l.own_text);
  return status;
}

int hd_launched(int32_t *rank, int32_t *ranks) {
  int mine = 0, all = 1;
  hd_start start;
  hd_ctx quiet = {0};
  const bool by_us = hd__world_launched(&mine, &all);
  const hd_status status = by_us ? HD_OK : hd__start_read(&start, &quiet);
  const bool several = status == HD_E_UNSUPPORTED; /* hosts, without MPI: making a group will say so */
  const bool launched = by_us || several || (status == HD_OK && start.rank >= 0);
  *rank = by_us ? mine : launched ? start.rank : 0;
  *ranks = by_us ? all : launched ? start.ranks : 1;
  return launched;
}

hd_status hd_spawn(int32_t *rank, hd_ctx *ctx, int32_t ranks) {
  int32_t of;
  hd_launch_result result;
  if (hd_launched(rank, &of))
    return HD_OK;
  *rank = -1;
  return hd_launch(&result, ctx, &(hd_launch_settings){.ranks = ranks});
}
