/* Programs that benches start, and benches with peers: the command's embedded scripts are written to a temporary folder
 * and run by a python3 child process, which gets the path of this program. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/embed.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "platform/this_program.h"

extern char **environ;

enum { MOST_WORDS = 128, FOLDER_BYTES = 256, PATH_BYTES = FOLDER_BYTES + 64 };

static void path_of(char path[PATH_BYTES], const char *folder, const char *name) {
  snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

static void remove_folder(const char *folder) {
  char path[PATH_BYTES];
  for (const hd_embedded *script = hd__embed_peers; script->name; script++) {
    path_of(path, folder, script->name);
    remove(path);
  }
  rmdir(folder);
}

static int write_scripts(const char *folder) {
  char path[PATH_BYTES];
  for (const hd_embedded *script = hd__embed_peers; script->name; script++) {
    path_of(path, folder, script->name);
    FILE *file = fopen(path, "we");
    int failed = !file || fwrite(script->bytes, 1, script->length, file) != script->length;
    if (file)
      failed |= fclose(file) != 0;
    if (failed) {
      cli_complain("cannot write %s: %s; free some space", path, strerror(errno));
      return CLI_FAILED;
    }
  }
  return CLI_OK;
}

int bench_folder(char *path, size_t bytes, const char *name, const char *what) {
  const char *parent = getenv("TMPDIR");
  snprintf(path, bytes, "%.*s/heddle-%s-XXXXXX", (int)bytes - 56, parent && *parent ? parent : "/tmp", name);
  if (mkdtemp(path))
    return CLI_OK;
  cli_complain("expected a folder for %s, found %s: %s; set TMPDIR", what, path, strerror(errno));
  return CLI_FAILED;
}

/* ---- One program at a time, and signals ---- */

static volatile sig_atomic_t caught, child; /* child: the program's process, 0 for none */

/* Signals of the terminal reach the program too; those to this process alone must be passed on. */
static void on_signal(int number, siginfo_t *info, void *context) {
  caught = number;
  if (child && info->si_code != SI_KERNEL)
    kill(child, number);
}

void bench_catch_signals(void) {
  cli_catch(&(struct sigaction){.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART});
}

int bench_caught(void) { return caught; }

int bench_end(int code) { return caught && code != CLI_OK ? cli_stopped_by(caught) : code; }

/* What the program gets of this process: the usual signals, and files unless they are -1 and NULL. */
static void prepare(posix_spawnattr_t *how, posix_spawn_file_actions_t *files, int output, const char *errors) {
  static const int usual[] = {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    sigaddset(&set, usual[i]);
  posix_spawnattr_init(how);
  posix_spawnattr_setsigdefault(how, &set);
  posix_spawnattr_setflags(how, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  posix_spawn_file_actions_init(files);
  if (output >= 0)
    posix_spawn_file_actions_adddup2(files, output, STDOUT_FILENO);
  if (errors)
    posix_spawn_file_actions_addopen(files, STDERR_FILENO, errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
}

/* Starts it, unless a signal came before. None may come between the start and its number. */
static int start(int output, const char *errors, char *const *argv) {
  pid_t started = 0;
  sigset_t all, before;
  posix_spawnattr_t how;
  posix_spawn_file_actions_t files;
  prepare(&how, &files, output, errors);
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  posix_spawnattr_setsigmask(&how, &before);
  const int failed = caught ? EINTR : posix_spawnp(&started, argv[0], &files, &how, argv, environ);
  child = failed ? 0 : started;
  sigprocmask(SIG_SETMASK, &before, NULL);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  return failed;
}

/* Its exit code. The system may give its number to another process once its end has been read. */
static int await(void) {
  const pid_t process = child;
  siginfo_t end;
  int status = 0;
  while (waitid(P_PID, (id_t)process, &end, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  child = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int bench_child(char *line, int bytes, const char *errors, char *const *argv) {
  int ends[2] = {-1, -1};
  if (line && pipe2(ends, O_CLOEXEC) != 0)
    return -errno;
  const int failed = start(ends[1], errors, argv);
  FILE *from = NULL;
  if (line) {
    close(ends[1]);
    from = fdopen(ends[0], "r");
  }
  while (from && fgets(line, bytes, from)) {
  }
  if (from)
    fclose(from);
  if (failed)
    return caught ? 128 + caught : -failed;
  return await();
}

/* ---- Peers ---- */

int bench_peers(const char *script, const char *const *given) {
  char folder[FOLDER_BYTES], path[PATH_BYTES], self[PATH_MAX];
  char *argv[MOST_WORDS] = {(char *)"python3", path, (char *)"--heddle", self};
  int count = 4;
  hd__program_path(self, sizeof self);
  for (; *given && count < MOST_WORDS - 1; given++)
    argv[count++] = (char *)*given;
  fflush(stdout);
  bench_catch_signals();
  int code = bench_folder(folder, sizeof folder, "peers", "scripts");
  if (code != CLI_OK)
    return code;
  code = write_scripts(folder);
  path_of(path, folder, script);
  if (code == CLI_OK)
    code = bench_child(NULL, 0, NULL, argv);
  if (code < 0) {
    cli_complain("expected python3, found none (%s); install it, or name an interpreter's folder in PATH",
                 strerror(-code));
    code = CLI_FAILED;
  }
  remove_folder(folder);
  return bench_end(code);
}
