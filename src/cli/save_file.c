/* Writing the files that commands are asked for, atomically: see cli.h. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens a temporary file beside a path, or opens the path itself if it must be written in place (no temporary name).
 * The name is one that is removed from a run's folder with other leftovers. */
static FILE *open_beside(char temporary[PATH_MAX], const char *path, bool follows) {
  struct stat there, out = {0};
  uint64_t number;
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const bool replaces = (follows ? stat : lstat)(path, &there) == 0 && !S_ISLNK(there.st_mode);
  fstat(STDOUT_FILENO, &out);
  *temporary = 0;
  if (replaces && there.st_dev == out.st_dev && there.st_ino == out.st_ino && fflush(stdout) == 0)
    return fdopen(dup(STDOUT_FILENO), "w");                                     /* append */
  if (replaces ? !S_ISREG(there.st_mode) : follows && lstat(path, &there) == 0) /* or a link to what is not there */
    return fopen(path, "we");
  if (getentropy(&number, sizeof number) != 0)
    return NULL;
  snprintf(temporary, PATH_MAX, "%.*s.%s.tmp-%016llx", (int)(name - path), path, name, (unsigned long long)number);
  return fopen(temporary, "wxe");
}

int cli_save_open(cli_saved *saved, const char *path, bool follows) {
  char *real = follows ? realpath(path, NULL) : NULL; /* a pipe has none */
  const bool fits = snprintf(saved->path, sizeof saved->path, "%s", real ? real : path) < PATH_MAX;
  free(real);
  errno = ENAMETOOLONG;
  saved->file = fits ? open_beside(saved->temporary, saved->path, follows) : NULL;
  return saved->file ? 0 : errno;
}

int cli_save_close(cli_saved *saved, bool keeps) {
  errno = 0;
  bool failed = ferror(saved->file) != 0;
  failed |= fclose(saved->file) != 0;
  failed = failed || (keeps && *saved->temporary && rename(saved->temporary, saved->path) != 0);
  const int error = failed ? (errno ? errno : EIO) : 0;
  if ((failed || !keeps) && *saved->temporary)
    remove(saved->temporary);
  return error;
}

int cli_save(const char *path, bool follows, void (*draw)(FILE *file, const void *what), const void *what) {
  cli_saved saved;
  const int error = cli_save_open(&saved, path, follows);
  if (error)
    return error;
  draw(saved.file, what);
  return cli_save_close(&saved, true);
}

int cli_can_save(const char *path) {
  char folder[PATH_MAX], *real = realpath(path, NULL);
  const char *at = real ? real : path, *slash = strrchr(at, '/');
  struct stat there, out = {0};
  int error = ENAMETOOLONG;
  const bool is_there = stat(at, &there) == 0;
  fstat(STDOUT_FILENO, &out);
  const bool in_place =
      is_there && (!S_ISREG(there.st_mode) || (there.st_dev == out.st_dev && there.st_ino == out.st_ino));
  if (snprintf(folder, sizeof folder, "%.*s.", slash ? (int)(slash - at) + 1 : 0, at) < PATH_MAX)
    error = access(in_place ? at : folder, W_OK) == 0 ? 0 : errno;
  if (is_there && S_ISDIR(there.st_mode))
    error = EISDIR;
  free(real);
  return error;
}

int cli_save_svg(const char *path, void (*draw)(FILE *file, const void *what), const void *what) {
  const int error = path ? cli_save(path, true, draw, what) : 0;
  if (error == 0)
    return CLI_OK;
  cli_complain("--svg expects a file that can be written, found %s: %s; choose another one", path, strerror(error));
  return CLI_FAILED;
}
