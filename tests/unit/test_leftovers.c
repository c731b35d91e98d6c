/* What killed processes left, pipes in the place of files, and systems whose calls fail or answer otherwise than usual:
 * the only copy is never removed, and nothing waits for ever. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "platform/file.h"
#include "platform/memory_file.h"

static hd_ctx *ctx;

/* ---- The system ---- */

static int refused, interrupted; /* an errno of renames; reservations that a signal interrupts */
static bool other_numbers;       /* a name has another number than the open file */

int rename(const char *from, const char *to) {
  errno = refused;
  return refused ? -1 : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int posix_fallocate(int fd, off_t offset, off_t bytes) {
  if (interrupted > 0)
    return interrupted--, EINTR;
  return fallocate(fd, 0, offset, bytes) == 0 ? 0 : errno;
}

int lstat(const char *path, struct stat *info) {
  const int failed = fstatat(AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
  info->st_ino += !failed && other_numbers;
  return failed;
}

/* ---- Folders ---- */

static bool writes_these(const char *name) { return !strcmp(name, "file") || !strcmp(name, "run"); }

static const char *fresh(const char *name) {
  const char *path = in_scratch("%s", name);
  mkdir(path, 0755);
  return path;
}

static const char *below(const char *folder, const char *name) {
  static char path[16][HD_PATH_BYTES];
  static int next;
  char *out = path[next++ % 16];
  if (snprintf(out, HD_PATH_BYTES, "%s/%s", folder, name) >= HD_PATH_BYTES)
    bail_out("expected a short path, found %s", name);
  return out;
}

/* A folder that was replaced later than the one before, by the clock of the file system. */
static void replaced(const char *path, const char *before) {
  struct stat old = {0}, new = {0};
  mkdir(path, 0755);
  put_file(below(path, "file"), path + strlen(path) - 1, 1);
  if (before)
    stat(before, &old);
  do {
    chmod(path, 0700);
    chmod(path, 0755);
    stat(path, &new);
  } while (new.st_ctim.tv_sec == old.st_ctim.tv_sec &&new.st_ctim.tv_nsec == old.st_ctim.tv_nsec);
}

static char letter_in(const char *path) {
  char letter = 0;
  FILE *from = fopen(path, "r");
  if (from && fread(&letter, 1, 1, from) != 1)
    letter = 0;
  if (from)
    fclose(from);
  return letter;
}

static void test_only_copy(void) {
  const char *folder = fresh("replaced"), *old = below(folder, ".run.old-000000000000000");
  char path[3][HD_PATH_BYTES];
  for (int i = 0; i < 3; i++)
    snprintf(path[i], sizeof path[i], "%s%c", old, "2b1"[i]); /* whatever the order of their names */
  for (int i = 0; i < 3; i++)
    replaced(path[i], i ? path[i - 1] : NULL);
  refused = ENOSPC;
  hd__file_remove_leftovers(folder, writes_these);
  refused = 0;
  is_int(entries_in(folder), 3, "what was replaced stays where it cannot be put back");
  hd__file_remove_leftovers(folder, writes_these);
  is_int(letter_in(below(folder, "run/file")), '1', "then the last of them is");
  is_int(entries_in(folder), 1, "and the others are removed");
}

/* ---- Caches ---- */

/* Writes some of a file, then tells and waits to be killed; without anybody to tell, all of it. */
static hd_status write_some(FILE *to, hd_ctx *at, void *arg) {
  const int tell = *(const int *)arg;
  fputs("some", to);
  if (tell >= 0 && (fflush(to) != 0 || write(tell, "x", 1) != 1))
    _exit(1);
  while (tell >= 0)
    pause();
  return HD_OK;
}

static pid_t start_writing(const char *path) {
  int ends[2];
  char half;
  if (pipe(ends) != 0)
    bail_out("expected a pipe, found none");
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    hd__file_write_cache(ctx, path, write_some, &ends[1]);
    _exit(1);
  }
  close(ends[1]);
  if (read(ends[0], &half, 1) != 1)
    bail_out("expected half a file, found none");
  close(ends[0]);
  return child;
}

static void end(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

static void test_cache(void) {
  const char *folder = fresh("cache"), *path = below(folder, "decoded-1");
  int alone = -1;
  end(start_writing(path));
  end(start_writing(path));
  is_int(entries_in(folder), 1, "a process that is killed while it writes a cache leaves a file, the next removes it");
  put_file(below(folder, ".decoded-2.tmp-0123456789abcdef"), "x", 1);
  put_file(below(folder, ".decoded-1.tmp-notes"), "x", 1);
  const pid_t other = start_writing(path);
  is_int(hd__file_write_cache(ctx, path, write_some, &alone), HD_OK, "a process writes it at last");
  is_int(entries_in(folder), 4, "beside what another one writes, and files of other names");
  end(other);
  is_int(hd__file_write_cache(ctx, path, write_some, &alone), HD_OK, "and again");
  is_int(entries_in(folder), 3, "which is removed when that one has been killed");
}

/* ---- Pipes ---- */

static void test_pipes(void) {
  const char *path = below(fresh("pipes"), "metrics.jsonl");
  FILE *file;
  is_int(mkfifo(path, 0600), 0, "a pipe in the place of a file");
  held before = held_now();
  refuses(hd__file_open_if_there(&file, ctx, path), HD_E_IO, ctx, path, "expected a regular file, found a pipe",
          "is refused at once");
  ok(!file, "and not opened");
  holds_same(before, "nor held");
  is_int(hd__file_open_if_there(&file, ctx, in_scratch("missing")), HD_OK, "no file is no failure");
  ok(!file, "and none");
}

/* ---- Standard output ---- */

static void test_output(void) {
  const char *path = in_scratch("output");
  char text[64] = "";
  int status = 1, alone = -1;
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
      _exit(1);
    printf("first ");
    const hd_status wrote = hd__file_write_named(ctx, path, write_some, &alone);
    printf(" last");
    _exit(wrote != HD_OK || fflush(stdout) != 0);
  }
  waitpid(child, &status, 0);
  FILE *from = fopen(path, "r");
  if (!from || !fgets(text, sizeof text, from))
    bail_out("expected output, found none");
  fclose(from);
  is_int(status, 0, "a file is written to the file of standard output");
  is_str(text, "first some last", "behind what was printed before");
}

/* ---- Other answers of the system ---- */

static void test_numbers(void) {
  const char *folder = fresh("numbers");
  int lock;
  other_numbers = true;
  refuses(hd__file_lock_folder(&lock, ctx, folder, 0), HD_E_IO, ctx, folder, "choose another --out",
          "a lock on a file system that has two numbers for each file");
  other_numbers = false;
}

static void test_interrupted(void) {
  interrupted = 2;
  const int fd = hd__memory_file("test", 1 << 16, false);
  ok(fd >= 0 && interrupted == 0, "a signal while memory is reserved is no failure");
  close(fd);
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  alarm(60); /* where one waits for ever */
  test_only_copy();
  test_cache();
  test_pipes();
  test_output();
  test_numbers();
  test_interrupted();
  hd_ctx_destroy(ctx);
  return done_testing();
}
