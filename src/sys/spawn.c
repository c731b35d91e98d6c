/* Starting processes: see spawn.h. */
#include "sys/spawn.h"

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

extern char **environ;

/* The environment with one variable more; the copy shares its texts, but for `added`, the last. */
static char **environment_with(char **added, const hd_spawn *how) {
  size_t count = 0, kept = 0, length = strlen(how->name);
  while (environ[count])
    count++;
  char **copy = hd__calloc(count + 2, sizeof *copy);
  *added = hd__printf_alloc("%s=%s", how->name, how->value);
  if (!copy || !*added) {
    hd__free(copy);
    hd__free(*added);
    return NULL;
  }
  for (size_t i = 0; i < count; i++)
    if (strncmp(environ[i], how->name, length) || environ[i][length] != '=')
      copy[kept++] = environ[i];
  copy[kept] = *added;
  return copy;
}

/* Signals as a shell would leave them, whatever this process has done to its own. */
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

hd_status hd__spawn(pid_t *out, hd_ctx *ctx, const hd_spawn *how) {
  const char *program = how->program ? how->program : "/proc/self/exe";
  posix_spawnattr_t attr;
  posix_spawn_file_actions_t actions;
  char *added = NULL, **environment = how->name ? environment_with(&added, how) : environ;
  if (!environment)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while starting a process");
  int error = posix_spawnattr_init(&attr);
  if (!error && (error = posix_spawn_file_actions_init(&actions)))
    posix_spawnattr_destroy(&attr);
  if (!error) {
    error = prepare(&attr, &actions, how->fd);
    if (!error)
      error = posix_spawn(out, program, &actions, &attr, how->argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
  }
  if (how->name) {
    hd__free(environment);
    hd__free(added);
  }
  if (error)
    return hd__fail(ctx, HD_E_SYSTEM,
                    "cannot start a process of %s: %s; look at the limits of `ulimit -u` and of memory", program,
                    strerror(error));
  return HD_OK;
}

int hd__spawn_join_fate(pid_t parent) {
#ifdef SYS_close_range
  syscall(SYS_close_range, HD_SPAWN_FD + 1, ~0U,
          0); /* an old kernel leaves them open, which harms nobody but their owners */
#endif
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

void hd__spawn_end(char text[HD_SPAWN_END_BYTES], pid_t pid) {
  int how;
  pid_t ended;
  while ((ended = waitpid(pid, &how, 0)) < 0 && errno == EINTR) {
  }
  if (ended < 0)
    snprintf(text, HD_SPAWN_END_BYTES, "an end that somebody else waited for");
  else if (WIFSIGNALED(how))
    snprintf(text, HD_SPAWN_END_BYTES, "signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
  else
    snprintf(text, HD_SPAWN_END_BYTES, "exit status %d", WEXITSTATUS(how));
}
