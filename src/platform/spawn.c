/* Starting processes, and the arguments that this one was started with, from /proc/self: see spawn.h. */
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
#include "platform/file.h"
#include "platform/this_program.h"

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

static const char *remedy_of(int error) {
  const bool is_program = error == ENOENT || error == ENOTDIR || error == EACCES || error == ENOEXEC;
  return is_program ? "check the program's name" : "check `ulimit -u` and the limit on memory";
}

hd_status hd__spawn(pid_t *out, hd_ctx *ctx, const hd_spawn_how *how) {
  const char *program = how->program ? how->program : hd__program_again;
  posix_spawnattr_t attr;
  posix_spawn_file_actions_t actions;
  static const char *const nothing[] = {NULL};
  char **environment = hd__environment_with(how->set ? how->set : nothing);
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
  hd__free(environment);
  if (error)
    return hd__fail(ctx, HD_E_SYSTEM, "cannot start a process of %s: %s; %s", program, strerror(error),
                    remedy_of(error));
  return HD_OK;
}

void hd__spawn_close_others(void) {
#ifdef SYS_close_range
  syscall(SYS_close_range, HD_SPAWN_FD + 1, ~0U, 0); /* an old kernel leaves them open, which wastes descriptors only */
#endif
}

int hd__spawn_end_with_parent(pid_t parent) {
  hd__spawn_close_others();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  return getppid() == parent;
}

void hd__spawn_end(char text[HD_SPAWN_END_BYTES], pid_t pid) {
  int how;
  if (TEMP_FAILURE_RETRY(waitpid(pid, &how, 0)) < 0)
    snprintf(text, HD_SPAWN_END_BYTES, "unknown status (it was read elsewhere)");
  else if (WIFSIGNALED(how))
    snprintf(text, HD_SPAWN_END_BYTES, "signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
  else
    snprintf(text, HD_SPAWN_END_BYTES, "exit status %d", WEXITSTATUS(how));
}

/* ---- Arguments: consecutive strings, each with its end ---- */

static hd_status read_arguments(char **text, size_t *used, hd_ctx *ctx) {
  static const char path[] = "/proc/self/cmdline";
  size_t room = 1 << 12, got;
  HD_FILE_OWNED *file = fopen(path, "re");
  if (!file)
    return hd__fail(ctx, HD_E_SYSTEM, "%s: cannot read this program's arguments: %s", path, strerror(errno));
  *used = 0;
  for (*text = NULL;; room *= 2) {
    char *longer = hd__realloc(*text, room + 1);
    HD_TRY(HD_ALLOCATED(longer, ctx, "out of memory for this program's arguments"));
    *text = longer;
    while ((got = fread(*text + *used, 1, room - *used, file)) > 0)
      *used += got;
    if (*used < room)
      break;
  }
  (*text)[*used] = 0;
  return HD_OK;
}

hd_status hd__spawn_arguments(char ***out, hd_ctx *ctx) {
  HD_OWNED char *text = NULL;
  size_t used = 0, count = 0;
  *out = NULL;
  HD_TRY(read_arguments(&text, &used, ctx));
  for (size_t i = 0; i < used; i++)
    count += !text[i];
  const size_t pointers = (count + 2) * sizeof **out;
  HD_TRY(HD_ALLOCATED(*out = hd__malloc(pointers + used + 1), ctx, "out of memory for this program's arguments"));
  char *copy = memcpy((char *)*out + pointers, text, used + 1);
  count = 0;
  for (char *at = copy; at < copy + used; at += strlen(at) + 1)
    (*out)[count++] = at;
  (*out)[count] = NULL;
  return HD_OK;
}
