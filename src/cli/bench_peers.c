/* Benches with peers: the command's embedded scripts are written to a temporary folder and run by a python3 child
 * process, which gets the path of this program. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/embed.h"
#include "cli/bench_report.h"
#include "cli/cli.h"

extern char **environ;

enum { MOST_WORDS = 128, FOLDER_BYTES = 256, PATH_BYTES = FOLDER_BYTES + 64 };

static void path_of(char path[PATH_BYTES], const char *folder, const char *name) {
  snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

static int write_script(const char *folder, const hd_embedded *script) {
  char path[PATH_BYTES];
  path_of(path, folder, script->name);
  FILE *file = fopen(path, "w");
  int failed = !file || fwrite(script->bytes, 1, script->length, file) != script->length;
  if (file)
    failed |= fclose(file) != 0;
  return failed;
}

static void remove_folder(const char *folder) {
  char path[PATH_BYTES];
  for (const hd_embedded *script = hd__embed_peers; script->name; script++) {
    path_of(path, folder, script->name);
    remove(path);
  }
  rmdir(folder);
}

/* A new folder in $TMPDIR or /tmp. */
static int write_scripts(char folder[FOLDER_BYTES]) {
  const char *parent = getenv("TMPDIR");
  snprintf(folder, FOLDER_BYTES, "%.200s/heddle-peers-XXXXXX", parent && *parent ? parent : "/tmp");
  if (!mkdtemp(folder)) {
    cli_complain("expected a folder for scripts, found %s: %s; set TMPDIR", folder, strerror(errno));
    return CLI_FAILED;
  }
  for (const hd_embedded *script = hd__embed_peers; script->name; script++)
    if (write_script(folder, script)) {
      cli_complain("cannot write %s/%s: %s; free some space", folder, script->name, strerror(errno));
      return CLI_FAILED;
    }
  return CLI_OK;
}

/* Signals of the terminal reach the child too: it ends, and this process then cleans up. */
static int run_python(char *const *argv) {
  pid_t child;
  int status;
  void (*interrupt)(int) = signal(SIGINT, SIG_IGN), (*terminate)(int) = signal(SIGTERM, SIG_IGN);
  sigset_t usual;
  posix_spawnattr_t attributes;
  sigemptyset(&usual);
  sigaddset(&usual, SIGINT);
  sigaddset(&usual, SIGTERM);
  sigaddset(&usual, SIGPIPE);
  sigaddset(&usual, SIGXFSZ);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  int failed = posix_spawnp(&child, argv[0], NULL, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  while (!failed && waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  signal(SIGINT, interrupt);
  signal(SIGTERM, terminate);
  if (failed) {
    cli_complain("expected python3, found none (%s); install it, or name an interpreter's folder in PATH",
                 strerror(failed));
    return CLI_FAILED;
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int bench_peers(const char *script, const char *const *given) {
  char folder[FOLDER_BYTES], path[PATH_BYTES], self[PATH_MAX];
  char *argv[MOST_WORDS] = {(char *)"python3", path, (char *)"--heddle", self};
  int count = 4;
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length > 0 ? length : 0] = 0;
  for (; *given && count < MOST_WORDS - 1; given++)
    argv[count++] = (char *)*given;
  fflush(stdout);
  int code = write_scripts(folder);
  path_of(path, folder, script);
  if (code == CLI_OK)
    code = run_python(argv);
  remove_folder(folder);
  return code;
}
