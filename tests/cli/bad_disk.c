/* For LD_PRELOAD: a file system on which chosen calls fail, or end the process.
 *
 *     BAD_DISK=CALL:N:WHAT[:TEXT],...
 *
 * The N-th call of that name fails, 0: each; with TEXT, of those whose path holds it (for two paths: FROM>TO). WHAT is
 * the name of an error, or KILL. Calls are open, write, fsync, mkdir, rename, renameat2, symlink, unlink, fcntl (of
 * locks) and flock. BAD_DISK_SEEN names a file that is there once a call has failed. Works for streams that
 * are opened for writing by replacing them: what the library calls inside of itself cannot be replaced. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REPLACES __attribute__((visibility("default")))

enum { MOST_RULES = 8, KILL = -1 };

typedef struct rule {
  char call[16], text[64];
  long number;
  int what;
  atomic_long seen;
} rule;

static rule rules[MOST_RULES];
static int count;

static int what_of(const char *name) {
  static const struct {
    const char *name;
    int number;
  } known[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EINTR", EINTR},   {"EINVAL", EINVAL},
               {"ENOSYS", ENOSYS}, {"ENOLCK", ENOLCK}, {"EMFILE", EMFILE}, {"KILL", KILL}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(name, known[i].name))
      return known[i].number;
  fprintf(stderr, "bad_disk: expected the name of an error, found '%s'\n", name);
  abort();
}

__attribute__((constructor)) static void read_rules(void) {
  const char *text = getenv("BAD_DISK");
  char what[16];
  for (; text && *text && count < MOST_RULES; count++) {
    rule *r = &rules[count];
    r->text[0] = 0;
    if (sscanf(text, "%15[^:]:%ld:%15[^:,]:%63[^,]", r->call, &r->number, what, r->text) < 3)
      abort();
    r->what = what_of(what);
    text += strcspn(text, ",");
    text += *text == ',';
  }
}

int flock(int fd, int operation); /* whose header has the name of one of heddle's */

/* Whether this call is to fail, with errno. */
static int fails(const char *call, const char *path) {
  for (int i = 0; i < count; i++) {
    rule *r = &rules[i];
    if (strcmp(call, r->call) || (*r->text && !strstr(path, r->text)))
      continue;
    const long number = atomic_fetch_add(&r->seen, 1) + 1;
    if (r->number != 0 && number != r->number)
      continue;
    const char *seen = getenv("BAD_DISK_SEEN");
    const int fd = seen ? (int)syscall(SYS_openat, AT_FDCWD, seen, O_CREAT | O_WRONLY | O_CLOEXEC, 0666) : -1;
    if (fd >= 0)
      syscall(SYS_close, fd);
    if (r->what == KILL)
      raise(SIGKILL);
    errno = r->what;
    return 1;
  }
  return 0;
}

static int fails_between(const char *call, const char *from, const char *to) {
  char both[8192];
  snprintf(both, sizeof both, "%s>%s", from, to);
  return fails(call, both);
}

static int fails_on(const char *call, int fd) {
  char link[48], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  return fails(call, path);
}

/* The library's own. */
#define REAL(type, name) ((type)dlsym(RTLD_NEXT, name))

static int real_open(const char *path, int flags, mode_t mode) {
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static mode_t mode_of(int flags, va_list more) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; }

/* Only what may write: libraries are opened too. */
static int open_any(const char *path, int flags, mode_t mode) {
  return (flags & O_ACCMODE) != O_RDONLY && fails("open", path) ? -1 : real_open(path, flags, mode);
}

#define OPEN(name)                                                                                                     \
  REPLACES int name(const char *path, int flags, ...) {                                                                \
    va_list more;                                                                                                      \
    va_start(more, flags);                                                                                             \
    const mode_t mode = mode_of(flags, more);                                                                          \
    va_end(more);                                                                                                      \
    return open_any(path, flags, mode);                                                                                \
  }
OPEN(open)
OPEN(open64)

/* One that fails has written half of its bytes. */
REPLACES ssize_t write(int fd, const void *bytes, size_t length) {
  if (!fails_on("write", fd))
    return (ssize_t)syscall(SYS_write, fd, bytes, length);
  const int why = errno;
  syscall(SYS_write, fd, bytes, length / 2);
  errno = why;
  return -1;
}

/* A stream on a descriptor. */
static ssize_t write_some(void *cookie, const char *bytes, size_t length) {
  const int fd = (int)(size_t)cookie;
  size_t at = 0;
  while (at < length) {
    const ssize_t n = write(fd, bytes + at, length - at);
    if (n < 0)
      return 0;
    at += (size_t)n;
  }
  return (ssize_t)length;
}

static int seek_some(void *cookie, off64_t *offset, int whence) {
  *offset = lseek64((int)(size_t)cookie, *offset, whence);
  return *offset < 0 ? -1 : 0;
}

static int close_some(void *cookie) { return (int)syscall(SYS_close, (int)(size_t)cookie); }

static FILE *stream_on(int fd, const char *mode) {
  const cookie_io_functions_t calls = {.write = write_some, .seek = seek_some, .close = close_some};
  const char plain[2] = {*mode, 0};
  return fopencookie((void *)(size_t)fd, plain, calls);
}

REPLACES FILE *fdopen(int fd, const char *mode) {
  return *mode == 'r' ? REAL(FILE * (*)(int, const char *), "fdopen")(fd, mode) : stream_on(fd, mode);
}

static FILE *open_stream(const char *name, const char *path, const char *mode) {
  if (*mode == 'r')
    return REAL(FILE * (*)(const char *, const char *), name)(path, mode);
  const int fd = open_any(path, O_WRONLY | O_CREAT | O_CLOEXEC | (*mode == 'a' ? O_APPEND : O_TRUNC), 0666);
  return fd < 0 ? NULL : stream_on(fd, mode);
}

REPLACES FILE *fopen(const char *path, const char *mode) { return open_stream("fopen", path, mode); }
REPLACES FILE *fopen64(const char *path, const char *mode) { return open_stream("fopen64", path, mode); }

REPLACES int fsync(int fd) { return fails_on("fsync", fd) ? -1 : (int)syscall(SYS_fsync, fd); }

REPLACES int mkdir(const char *path, mode_t mode) {
  return fails("mkdir", path) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

REPLACES int rename(const char *from, const char *to) {
  return fails_between("rename", from, to) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

REPLACES int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  return fails_between("renameat2", from, to) ? -1
                                              : (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

REPLACES int symlink(const char *target, const char *path) {
  return fails_between("symlink", target, path) ? -1 : (int)syscall(SYS_symlinkat, target, AT_FDCWD, path);
}

REPLACES int unlink(const char *path) {
  return fails("unlink", path) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* Locks take a pointer; what else there is takes a number or nothing. */
#define FCNTL(name)                                                                                                    \
  REPLACES int name(int fd, int command, ...) {                                                                        \
    va_list more;                                                                                                      \
    va_start(more, command);                                                                                           \
    void *arg = va_arg(more, void *);                                                                                  \
    va_end(more);                                                                                                      \
    return command == F_OFD_SETLK && fails("fcntl", "") ? -1 : (int)syscall(SYS_fcntl, fd, command, arg);              \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

REPLACES int flock(int fd, int operation) { return fails("flock", "") ? -1 : (int)syscall(SYS_flock, fd, operation); }
