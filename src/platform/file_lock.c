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
 * A program that can open the file can lock it, for reading at least. So the file is of mode 0600, and a program of
 * another user sees in /proc/locks whether it is locked.
 *
 * The holder of the lock removes the file. Another process may have opened it before: after locking it checks that
 * the name still refers to the locked file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "platform/clock.h"
#include "platform/file.h"
#include "platform/process.h"

enum { LINE_BYTES = 512, PLACE_BYTES = 384, LOCK_MODE = 0600 };

static const double TELL_S = 0.2; /* a shorter wait is not worth a line */

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
  for (char *c = out->host; *c; c++) /* it is printed in a message */
    *c = *c > ' ' && *c < 127 ? *c : '?';
  return out->pid > 0;
}

/* A process that was killed and not yet waited for holds nothing. */
static bool may_be_running(const holder *h) {
  char here[PLACE_BYTES];
  place_of(here);
  if (strcmp(h->place, here) != 0)
    return true;
  const hd_process_state is = hd__process_read(h->pid <= INT32_MAX ? (int)h->pid : 0, h->start);
  return !is.has_ended || is.lingers;
}

/* ---- A lock that this process does not hold ---- */

/* Whether this system has locked a file that may not be opened. Device numbers in /proc/locks differ from those of stat
 * on some file systems, so only the file's number is compared. */
static bool is_in_proc_locks(const struct stat *file) {
  char *line = NULL;
  size_t room = 0;
  bool found = false;
  HD_FILE_OWNED *from = fopen("/proc/locks", "re");
  while (from && !found && getline(&line, &room, from) >= 0) {
    unsigned long long number;
    found = sscanf(line, "%*s %*s %*s %*s %*s %*[^:]:%*[^:]:%llu", &number) == 1 && number == file->st_ino &&
            !strstr(line, "->"); /* which is a process that waits */
  }
  free(line);
  return found;
}

/* The file is not this user's. */
static hd_lock_state state_of_other_user(char who[HD_LOCK_WHO_BYTES], const char *file) {
  struct stat is;
  if (lstat(file, &is) != 0)
    return HD_LOCK_FREE;
  snprintf(who, HD_LOCK_WHO_BYTES, "a process of another user (uid %u)", (unsigned)is.st_uid);
  return is_in_proc_locks(&is) ? HD_LOCK_HELD : HD_LOCK_UNKNOWN;
}

/* Where the file system has no such locks the line alone decides. `busy`: this process could not lock the file. */
static hd_lock_state state_of(char who[HD_LOCK_WHO_BYTES], int fd, bool busy) {
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  const bool has_locks = fcntl(fd, F_OFD_GETLK, &whole) == 0;
  char here[PLACE_BYTES];
  holder h;
  if (has_locks && whole.l_type == F_UNLCK && !busy)
    return HD_LOCK_FREE;
  place_of(here);
  if (read_holder(&h, fd) && may_be_running(&h)) {
    snprintf(who, HD_LOCK_WHO_BYTES, "process %ld on %s", h.pid, h.host);
    return strcmp(h.place, here) ? HD_LOCK_UNKNOWN : HD_LOCK_HELD;
  }
  if (!has_locks)
    return HD_LOCK_FREE;
  if (whole.l_pid > 0)
    snprintf(who, HD_LOCK_WHO_BYTES, "process %ld, which does not write there", (long)whole.l_pid);
  else
    snprintf(who, HD_LOCK_WHO_BYTES, "a program that does not write there");
  return HD_LOCK_FOREIGN;
}

static hd_lock_state state_at(char who[HD_LOCK_WHO_BYTES], const char *path, bool busy) {
  char file[HD_PATH_BYTES];
  *who = 0;
  if (hd__file_join(file, NULL, path, HD_LOCK_NAME) != HD_OK)
    return HD_LOCK_FREE;
  const int fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
    snprintf(who, HD_LOCK_WHO_BYTES, "too many files are open to tell by whom");
    return HD_LOCK_UNKNOWN;
  }
  if (fd < 0)
    return errno == EACCES ? state_of_other_user(who, file) : HD_LOCK_FREE;
  const hd_lock_state state = state_of(who, fd, busy);
  close(fd);
  return state;
}

hd_lock_state hd__file_lock_state(char who[HD_LOCK_WHO_BYTES], const char *path) { return state_at(who, path, false); }

bool hd__file_is_locked(const char *path) {
  char who[HD_LOCK_WHO_BYTES];
  const hd_lock_state state = hd__file_lock_state(who, path);
  return state == HD_LOCK_HELD || state == HD_LOCK_UNKNOWN;
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

/* Writes the line of this process. On a full disk the line is missing in other processes' messages, but the lock
 * holds. */
static void sign(int fd) {
  char line[LINE_BYTES];
  line_of_this_process(line);
  if (ftruncate(fd, 0) != 0 || pwrite(fd, line, strlen(line), 0) < 0)
    return;
}

static answer take(int fd, const char *path) {
  answer got = try_system_lock(fd);
  holder h;
  if (got == TAKEN && !is_of(fd, path))
    return BUSY; /* the locked file was removed: try again */
  if (got == NO_LOCKS)
    got = read_holder(&h, fd) && may_be_running(&h) ? BUSY : TAKEN;
  if (got == TAKEN) {
    (void)!fchmod(fd, LOCK_MODE); /* of a file that an earlier heddle left */
    sign(fd);
  }
  return got;
}

static hd_status is_busy(hd_ctx *ctx, const char *path) {
  char who[HD_LOCK_WHO_BYTES];
  if (state_at(who, path, true) == HD_LOCK_FOREIGN)
    return hd__fail(ctx, HD_E_IO,
                    "%s: cannot lock %s/" HD_LOCK_NAME
                    ", which is locked by %s; end that program, or choose another --out",
                    path, path, who);
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected a folder that nothing else writes to, found another heddle writing to it%s%s%s; wait "
                  "for it or choose another --out; if it has "
                  "ended, remove %s/" HD_LOCK_NAME,
                  path, *who ? " (" : "", who, *who ? ")" : "", path);
}

/* One attempt; -1 in *lock: another has it. A file that was removed is opened again, a few times: on some file systems
 * the number of an open file differs from that of its name. */
static hd_status try_lock(int *lock, hd_ctx *ctx, const char *path, const char *file) {
  struct stat is;
  enum { ROUNDS = 100 };
  bool removed = true;
  for (int round = 0; removed && round < ROUNDS; round++) {
    const int fd = open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, LOCK_MODE);
    const int error = fd < 0 ? errno : 0;
    if (error == EACCES && lstat(file, &is) == 0 && is.st_uid != geteuid())
      return HD_OK; /* the file of another user, who writes here too */
    if (error)
      return hd__fail(ctx, HD_E_IO, "%s: cannot write to the folder: %s; check the path, or choose another --out", path,
                      strerror(error));
    if (take(fd, file) == TAKEN) {
      *lock = fd;
      return HD_OK;
    }
    removed = !is_of(fd, file);
    close(fd);
  }
  return HD_OK;
}

/* Says whose end is waited for, and how long at most. */
static void tell(const hd_ctx *ctx, const char *path, double wait_s) {
  char who[HD_LOCK_WHO_BYTES];
  state_at(who, path, true);
  hd__tell_wait(ctx, "waiting up to %g s for %s, which still writes to %s", wait_s, *who ? who : "another heddle",
                path);
}

hd_status hd__file_lock_folder(int *lock, hd_ctx *ctx, const char *path, double wait_s) {
  const struct timespec pause = {.tv_nsec = 20000000};
  const double end_s = hd__clock_s() + wait_s, tell_s = hd__clock_s() + TELL_S;
  bool told = wait_s < TELL_S;
  char file[HD_PATH_BYTES];
  *lock = -1;
  HD_TRY(hd__file_join(file, ctx, path, HD_LOCK_NAME));
  for (;;) {
    HD_TRY(try_lock(lock, ctx, path, file));
    if (*lock >= 0)
      return HD_OK;
    if (hd__clock_s() >= end_s)
      return wait_s < 0 ? HD_OK : is_busy(ctx, path);
    if (!told && hd__clock_s() >= tell_s) {
      tell(ctx, path, wait_s);
      told = true;
    }
    nanosleep(&pause, NULL);
  }
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
