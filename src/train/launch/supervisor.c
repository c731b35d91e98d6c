/* Starting the supervisor, and its main function: see supervisor.h. */
#include "train/launch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/exchange/local_group_join.h"
#include "platform/process.h"
#include "platform/spawn.h"
#include "train/checkpoint/emergency_save.h"

#define SUPERVISOR_VARIABLE "HEDDLE_SUPERVISOR"

/* Poll interval for a rank that leaves the run and does not end, or for which the system gives no descriptor. */
enum { POLL_MS = 200 };

/* How long writing the last line may take. */
enum { LINE_S = 1 };

static bool can_supervise;

/* ---- Starting ---- */

void hd__supervisor_start(const hd_local_group *local, const char *run) {
  static char name[] = "heddle";
  char path[PATH_MAX], what[PATH_MAX + 32]; /* for ps */
  char *const argv[] = {name, what, NULL};
  const char *const set[] = {SUPERVISOR_VARIABLE "=1", NULL};
  pid_t pid;
  if (!can_supervise || !local || hd__local_group_is_parented(local))
    return;
  snprintf(what, sizeof what, "keeps the last step of %s", realpath(run, path) ? path : run);
  if (hd__spawn(&pid, NULL, &(hd_spawn_how){.argv = argv, .set = set, .fd = hd__local_group_fd(local)}) != HD_OK)
    return;
  (void)TEMP_FAILURE_RETRY(waitpid(pid, NULL, 0)); /* the spawned process forks the supervisor and exits */
}

/* ---- The supervisor ---- */

/* Leaves the ranks' process group, session and terminal, and their standard streams except stderr, so that a signal
 * that ends the ranks does not end the supervisor. */
static void detach(void) {
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
  if (fork() != 0) /* the exit releases the rank that waits for this process */
    _exit(0);
}

/* Waits until the rank has ended or left the run; true: it left. */
static bool wait_for_rank(const hd_local_group *local, int rank) {
  const hd_rank_view at_first = hd__local_group_view(local, rank);
  struct pollfd end = {.fd = hd__process_open(at_first.pid, at_first.start), .events = POLLIN};
  bool ended = false;
  while (!ended && hd__local_group_view(local, rank).state != HD_RANK_LEFT) {
    const hd_process_state look = hd__process_read(at_first.pid, at_first.start);
    ended = look.has_ended && !look.lingers;
    if (!ended)
      poll(&end, 1, POLL_MS); /* poll ignores a negative descriptor: then it only sleeps */
  }
  if (end.fd >= 0)
    close(end.fd);
  return hd__local_group_view(local, rank).state == HD_RANK_LEFT;
}

/* Reports the local group's fault as the ranks recorded it, or else that none is known. */
static void report(const hd_local_group *local, const char *what) {
  char line[HD_FAULT_LINE_BYTES];
  hd_fault fault;
  alarm(LINE_S); /* writing to a pipe without a reader must not block the supervisor */
  if (hd__local_group_fault(&fault, local))
    fprintf(stderr, "heddle: %s; %s\n", hd__fault_line(line, &fault), what);
  else
    fprintf(stderr, "heddle: the ranks on %s ended in the middle of the run; %s\n", hd__local_group_host_name(local),
            what);
  alarm(0);
}

static int save_last_step(hd_local_group *local) {
  char run[HD_PATH_BYTES], what[HD_PATH_BYTES + 96];
  hd_ctx ctx = {0};
  int64_t step;
  bool wrote;
  const hd_status status = hd__emergency_save(&step, run, &wrote, &ctx, local);
  if (status == HD_E_USAGE || (status == HD_OK && !wrote))
    return 0; /* nothing to save, or a rank has saved it */
  if (status == HD_OK)
    snprintf(what, sizeof what, "saved step %lld, continue with --resume %s", (long long)step, run);
  else if (status == HD_E_UNSUPPORTED)
    snprintf(what, sizeof what, "%.*s", (int)sizeof what - 1, ctx.message);
  else
    snprintf(what, sizeof what, "step %lld could not be saved: %.500s", (long long)step, ctx.message);
  report(local, what);
  return status == HD_OK ? 0 : 1;
}

static int supervise(void) {
  hd_ctx ctx = {0};
  hd_local_group *local;
  hd_fault fault;
  hd__spawn_close_others();
  if (hd__local_group_hold(&local, &ctx, HD_SPAWN_FD) != HD_OK) {
    fprintf(stderr, "heddle: %s\n", ctx.message);
    return 1;
  }
  close(HD_SPAWN_FD);
  detach();
  bool in_order = true;
  for (int r = 0; r < hd__local_group_ranks(local); r++)
    in_order = wait_for_rank(local, r) && in_order;
  const int code = in_order && !hd__local_group_fault(&fault, local) ? 0 : save_last_step(local);
  hd__local_group_leave(local);
  return code;
}

void hd_supervisor(void) {
  if (getenv(SUPERVISOR_VARIABLE))
    exit(supervise());
  can_supervise = true;
}
