/* Starting processes: see spawn.h. */
#include "platform/spawn.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "platform/environment.h"

extern char **environ;

/* Resets signals to what a shell would leave, whatever this process has set. */
static int prepare(posix_spawnattr_t *attr, posix_spawn_file_actions_t *actions, int fd) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int error = posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (!error)
    error = posix_spawnattr_setsigmask(attr, &none);
  if (!error)
    error = posix_spawnattr_setsigdefault(attr, &all);
  if (!error && fd >= 0) /* onto itself too: that clears close-on-exec */
    error = posix_spawn_file_actions_adddup2(actions, fd, HD_SPAWN_FD);
  return error;
}

hd_status hd__spawn(pid_t *out, hd_ctx *ctx, const hd_spawn_how *how) {
  const char *program = how->program ? how->program : "/proc/self/exe";
  posix_spawnattr_t attr;
  posix_spawn_file_actions_t actions;
  char **environment = how->set ? hd__environment_with(how->set) : environ;
  HD_TRY(HD_ALLOCATED(environment, ctx, "out of memory while starting a process"));
  int error = posix_spawnattr_init(&attr);
  if (!error && (error = posix_spawn_file_actions_init(&actions)))
    posix_spawnattr_destroy(&attr);
  if (!error) {
    error = prepare(&attr, &actions, how->fd);
    if (!error)
      error = posix_spawnp(out, program, &actions, &attr, how->argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
  }
  if (how->set)
    hd__free(environment);
  if (error)
    return hd__fail(ctx, HD_E_SYSTEM,
                    "cannot start a process of %s: %s; look at the limits of `ulimit -u` and of memory", program,
                    strerror(error));
  return HD_OK;
}

int hd__spawn_end_with_parent(pid_t parent) {
#ifdef SYS_close_range
  syscall(SYS_close_range, HD_SPAWN_FD + 1, ~0U, 0); /* an old kernel leaves them open, which wastes descriptors only */
#endif
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

void hd__spawn_end(char text[HD_SPAWN_END_BYTES], pid_t pid) {
  int how;
  if (TEMP_FAILURE_RETRY(waitpid(pid, &how, 0)) < 0)
    snprintf(text, HD_SPAWN_END_BYTES, "an unknown end (its status was read elsewhere)");
  else if (WIFSIGNALED(how))
    snprintf(text, HD_SPAWN_END_BYTES, "signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
  else
    snprintf(text, HD_SPAWN_END_BYTES, "exit status %d", WEXITSTATUS(how));
}
