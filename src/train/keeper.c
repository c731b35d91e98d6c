/* Starting a keeper, and being one: see keeper.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "train/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heddle/launch.h"
#include "sys/process.h"
#include "sys/spawn.h"
#include "train/rescue.h"

#define KEEPER_VARIABLE "HEDDLE_KEEPER"

/* How soon the end of a rank is seen that leaves the run and lives on, or of which the system gives no descriptor. */
enum { LOOK_MS = 200 };

static bool can_keep;

/* ---- Starting ---- */

void hd__keeper_start(const hd_world *world, const char *run) {
  static char name[] = "heddle";
  char path[PATH_MAX], what[PATH_MAX + 32]; /* for ps */
  char *const argv[] = {name, what, NULL};
  const char *const set[] = {KEEPER_VARIABLE "=1", NULL};
  pid_t pid;
  if (!can_keep || !world || hd__world_is_parented(world))
    return;
  snprintf(what, sizeof what, "keeps the last step of %s", realpath(run, path) ? path : run);
  if (hd__spawn(&pid, NULL, &(hd_spawn_how){.argv = argv, .set = set, .fd = hd__world_fd(world)}) != HD_OK)
    return;
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) { /* it leaves a child of its own, which is none of ours */
  }
}

/* ---- Being one ---- */

/* Leaves the ranks' group, session and terminal, and their standard streams but that for errors. What ends the ranks by
 * a signal must not end who waits for that. */
static void step_aside(void) {
  const int nothing = open("/dev/null", O_RDWR);
  if (nothing >= 0) {
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
  }
  if (nothing > STDERR_FILENO)
    close(nothing);
  setsid();
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
    signal(signals[i], SIG_IGN);
  if (fork() != 0) /* now the rank that waits for this process may go on */
    _exit(0);
}

/* Until the rank has ended, or left the run; true: it left. */
static bool await_rank(const hd_world *world, int rank) {
  const hd_rank_view at_first = hd__world_view(world, rank);
  struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, at_first.pid, 0), .events = POLLIN};
  bool ended = false;
  while (!ended && hd__world_view(world, rank).state != HD_RANK_LEFT) {
    const hd_process_look look = hd__process_look(at_first.pid, at_first.start);
    ended = look.has_ended && !look.lingers;
    if (!ended)
      poll(&end, 1, LOOK_MS); /* a negative descriptor is none to poll: then it is the pause */
  }
  if (end.fd >= 0)
    close(end.fd);
  return hd__world_view(world, rank).state == HD_RANK_LEFT;
}

/* What broke the ranks' world, as they said themselves; else that it is known of none. */
static void tell(const hd_world *world, const char *what) {
  char line[HD_FAULT_LINE_BYTES];
  hd_fault fault;
  if (hd__world_fault(&fault, world))
    fprintf(stderr, "heddle: %s; %s\n", hd__fault_line(line, &fault), what);
  else
    fprintf(stderr, "heddle: the ranks on %s ended in the middle of the run; %s\n", hd__world_host_name(world), what);
}

static int save_what_they_left(hd_world *world) {
  char run[HD_PATH_BYTES], what[HD_PATH_BYTES + 96];
  hd_ctx ctx = {0};
  int64_t step;
  bool wrote;
  const hd_status status = hd__rescue_save(&step, run, &wrote, &ctx, world);
  if (status == HD_E_USAGE || (status == HD_OK && !wrote))
    return 0; /* there was nothing to save, or one of the ranks did */
  if (status == HD_OK)
    snprintf(what, sizeof what, "saved step %lld, go on with --resume %s", (long long)step, run);
  else
    snprintf(what, sizeof what, "step %lld could not be saved: %.500s", (long long)step, ctx.message);
  tell(world, what);
  return status == HD_OK ? 0 : 1;
}

static int keep(void) {
  hd_ctx ctx = {0};
  hd_world *world;
  hd_fault fault;
#ifdef SYS_close_range
  syscall(SYS_close_range, HD_SPAWN_FD + 1, ~0U, 0); /* what else the rank had open */
#endif
  if (hd__world_hold(&world, &ctx, HD_SPAWN_FD) != HD_OK) {
    fprintf(stderr, "heddle: %s\n", ctx.message);
    return 1;
  }
  close(HD_SPAWN_FD);
  step_aside();
  bool in_order = true;
  for (int r = 0; r < hd__world_ranks(world); r++)
    in_order = await_rank(world, r) && in_order;
  const int code = in_order && !hd__world_fault(&fault, world) ? 0 : save_what_they_left(world);
  hd__world_leave(world);
  return code;
}

void hd_keeper(void) {
  if (getenv(KEEPER_VARIABLE))
    exit(keep());
  can_keep = true;
}
