/* The lock of a folder: see file.h.
 *
 * It is a lock of the open file description, not of the process: the system frees it when the last descriptor is
 * closed, also by a kill, and it holds between two openings in one process. NFS passes it on to its server, so that
 * it holds between hosts; an flock of a folder holds on one host only. Where the file system refuses such locks
 * flock of the file is tried, and where it refuses these too, the file's content is the lock: one line, HOST BOOT
 * NAMESPACE PID START, which names a process. The state of a process on another host, or in another container, is
 * unknown: such a line holds until it is removed. Two processes that take a lock in that way at the same moment may
 * both get it.
 *
 * The holder of the lock removes the file. Another process may have opened it before: after locking it checks that
 * the name still refers to the locked file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/file.h"
#include "platform/process.h"

enum { LINE_BYTES = 512, PLACE_BYTES = 384 };

int flock(int fd, int operation); /* declared in <platform/file.h>, which here is another header */

typedef enum answer { TAKEN, BUSY, NO_LOCKS } answer;

/* ---- The holder ---- */

/* The scope of process numbers: host, boot, and PID namespace. */
static void place_of(char out[PLACE_BYTES]) {
  char host[128] = "?", boot[37], space[64] = "?";
  if (gethostname(host, sizeof host - 1) != 0)
    host[0] = '?';
  if (hd__file_text(boot, sizeof boot, "/proc/sys/kernel/random/boot_id") == 0)
    snprintf(boot, sizeof boot, "?");
  const ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  space[length > 0 ? length : 1] = 0;
  snprintf(out, PLACE_BYTES, "%.127s %.47s %.63s", host, boot, space);
}

static void line_of_this_process(char out[LINE_BYTES]) {
  char place[PLACE_BYTES];
  place_of(place);
  snprintf(out, LINE_BYTES, "%s %ld %llu\n", place, (long)getpid(), (unsigned long long)hd__process_start(0));
}

typedef struct holder {
  char place[PLACE_BYTES], host[128];
  long pid;
  unsigned long long start;
} holder;

/* False where the line is empty, or was written by something else. */
static bool read_holder(holder *out, int fd) {
  char line[LINE_BYTES], boot[48], space[64];
  const ssize_t got = pread(fd, line, sizeof line - 1, 0);
  line[got > 0 ? got : 0] = 0;
  if (sscanf(line, "%127s %47s %63s %ld %llu", out->host, boot, space, &out->pid, &out->start) != 5)
    return false;
  snprintf(out->place, sizeof out->place, "%s %s %s", out->host, boot, space);
  for (char *c = out->host; *c; c++) /* it goes into a message */
    *c = *c > ' ' && *c < 127 ? *c : '?';
  return out->pid > 0;
}

static bool may_be_running(const holder *h) {
  char here[PLACE_BYTES];
  place_of(here);
  return strcmp(h->place, here) != 0 || (h->pid <= INT32_MAX && hd__process_start((int)h->pid) == h->start);
}

/* ---- Taking it ---- */

static answer try_system_lock(int fd) {
  const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int failed = TEMP_FAILURE_RETRY(fcntl(fd, F_OFD_SETLK, &whole));
  if (failed && errno != EAGAIN && errno != EACCES)
    failed = flock(fd, LOCK_EX | LOCK_NB);
  return !failed ? TAKEN : errno == EAGAIN || errno == EACCES ? BUSY : NO_LOCKS;
}

static bool is_of(int fd, const char *path) {
  struct stat opened, named;
  return fstat(fd, &opened) == 0 && lstat(path, &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/* Writes the line of this process; on a full disk it is missing in messages of others, the lock holds. */
static void sign(int fd) {
  char line[LINE_BYTES];
  line_of_this_process(line);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, line, strlen(line), 0) < 0)
    return;
}

static answer take(int fd, const char *path, holder *h) {
  answer got = try_system_lock(fd);
  if (got == TAKEN && !is_of(fd, path))
    return BUSY; /* the locked file was removed: try again */
  *h = (holder){0};
  const bool known = got != TAKEN && read_holder(h, fd);
  if (got == NO_LOCKS)
    got = known && may_be_running(h) ? BUSY : TAKEN;
  if (got == TAKEN)
    sign(fd);
  return got;
}

static hd_status cannot_open(hd_ctx *ctx, const char *path) {
  return hd__fail(ctx, HD_E_IO, "%s: expected a folder to write in, found: %s; check the path, or choose another --out",
                  path, strerror(errno));
}

static hd_status is_busy(hd_ctx *ctx, const char *path, const holder *h) {
  char who[192] = "";
  if (h->pid > 0)
    snprintf(who, sizeof who, " (process %ld on %s)", h->pid, h->host);
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected a folder that no one writes, found another heddle at work in it%s; wait for it or "
                  "choose another --out; if it has ended, remove %s/" HD_LOCK_NAME,
                  path, who, path);
}

hd_status hd__file_lock_folder(int *lock, hd_ctx *ctx, const char *path, double wait_s) {
  const struct timespec pause = {.tv_nsec = 20000000};
  const double end_s = hd__clock_s() + wait_s;
  char file[HD_PATH_BYTES];
  holder h = {0};
  *lock = -1;
  HD_TRY(hd__file_join(file, ctx, path, HD_LOCK_NAME));
  for (;;) {
    const int fd = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0)
      return cannot_open(ctx, path);
    if (take(fd, file, &h) == TAKEN) {
      *lock = fd;
      return HD_OK;
    }
    const bool removed = !is_of(fd, file);
    close(fd);
    if (removed)
      continue;
    if (hd__clock_s() >= end_s)
      return wait_s < 0 ? HD_OK : is_busy(ctx, path, &h);
    nanosleep(&pause, NULL);
  }
}

bool hd__file_is_locked(const char *path) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  char file[HD_PATH_BYTES];
  holder h;
  const int fd = hd__file_join(file, NULL, path, HD_LOCK_NAME) == HD_OK
                     ? open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
                     : -1;
  if (fd < 0)
    return false;
  const bool locked =
      fcntl(fd, F_OFD_GETLK, &whole) == 0 ? whole.l_type != F_UNLCK : read_holder(&h, fd) && may_be_running(&h);
  close(fd);
  return locked;
}

/* The path comes from /proc/self/fd. */
void hd__file_unlock(int *lock) {
  char link[48], path[HD_PATH_BYTES];
  if (*lock < 0)
    return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", *lock);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length > 0 ? length : 0] = 0;
  if (length > 0 && is_of(*lock, path))
    unlink(path);
  close(*lock);
  *lock = -1;
}
