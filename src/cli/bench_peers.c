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

/* Starts a program with the usual signals, its output going to `output` unless that is -1. */
static int start(pid_t *child, int output, char *const *argv) {
  sigset_t usual;
  posix_spawnattr_t how;
  posix_spawn_file_actions_t files;
  sigemptyset(&usual);
  sigaddset(&usual, SIGINT);
  sigaddset(&usual, SIGTERM);
  sigaddset(&usual, SIGPIPE);
  sigaddset(&usual, SIGXFSZ);
  posix_spawnattr_init(&how);
  posix_spawnattr_setsigdefault(&how, &usual);
  posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_init(&files);
  if (output >= 0)
    posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  const int failed = posix_spawnp(child, argv[0], &files, &how, argv, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&how);
  return failed;
}

int bench_child(char *line, int bytes, char *const *argv) {
  pid_t child;
  int status = 0, ends[2] = {-1, -1};
  if (line && pipe2(ends, O_CLOEXEC) != 0)
    return -errno;
  void (*interrupt)(int) = signal(SIGINT, SIG_IGN), (*terminate)(int) = signal(SIGTERM, SIG_IGN);
  const int failed = start(&child, ends[1], argv);
  FILE *from = NULL;
  if (line) {
    close(ends[1]);
    from = fdopen(ends[0], "r");
  }
  while (from && fgets(line, bytes, from)) {
  }
  if (from)
    fclose(from);
  while (!failed && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  signal(SIGINT, interrupt);
  signal(SIGTERM, terminate);
  return failed ? -failed : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int bench_peers(const char *script, const char *const *given) {
  char folder[FOLDER_BYTES], path[PATH_BYTES], self[PATH_MAX];
  char *argv[MOST_WORDS] = {(char *)"python3", path, (char *)"--heddle", self};
  int count = 4;
  hd__program_path(self, sizeof self);
  for (; *given && count < MOST_WORDS - 1; given++)
    argv[count++] = (char *)*given;
  fflush(stdout);
  int code = bench_folder(folder, sizeof folder, "peers", "scripts");
  if (code != CLI_OK)
    return code;
  code = write_scripts(folder);
  path_of(path, folder, script);
  if (code == CLI_OK)
    code = bench_child(NULL, 0, argv);
  if (code < 0) {
    cli_complain("expected python3, found none (%s); install it, or name an interpreter's folder in PATH",
                 strerror(-code));
    code = CLI_FAILED;
  }
  remove_folder(folder);
  return code;
}
