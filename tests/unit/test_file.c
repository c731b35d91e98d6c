/* Files, folders and links are old or new, never partial: for a reader at any time, after a failure, after a kill. A
 * failure has a message and leaves nothing behind. */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "platform/file.h"

enum { LONG = 100000 };

static hd_ctx *ctx;

/* What the writer under test is to do. */
typedef struct job {
  char letter;
  int length;
  hd_status fails; /* after writing half */
  int full;        /* the disk is */
  int tell;        /* a pipe: signals that half is written, then waits for the end */
} job;

static hd_status write_letters(FILE *to, hd_ctx *at, void *arg) {
  const job *what = arg;
  if (what->full) {
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || dup2(fd, fileno(to)) < 0)
      bail_out("expected /dev/full, found none");
    close(fd);
  }
  for (int i = 0; i < what->length; i++) {
    if (i == what->length / 2 && what->tell) {
      if (fflush(to) != 0 || write(what->tell, "x", 1) != 1)
        _exit(1);
      for (;;)
        pause();
    }
    if (i == what->length / 2 && what->fails != HD_OK)
      return hd__fail(at, what->fails, "the writer's own message");
    fputc(what->letter, to);
  }
  return HD_OK;
}

static hd_status write_job(const char *path, job what) { return hd__file_write(ctx, path, write_letters, &what); }

/* The letter of which all `length` bytes of a file are (e for empty), 0 if they are not or there are more or fewer, -1
 * if there is no file. */
static int letters_in(const char *path, int length) {
  static _Thread_local char bytes[LONG + 1];
  int fd = open(path, O_RDONLY | O_CLOEXEC), count = 0;
  if (fd < 0)
    return -1;
  for (ssize_t got; (got = read(fd, bytes + count, sizeof bytes - (size_t)count)) > 0;)
    count += (int)got;
  close(fd);
  for (int i = 1; i < count; i++)
    if (bytes[i] != bytes[0])
      return 0;
  return count != length ? 0 : count ? bytes[0] : 'e';
}

/* A fresh empty folder in the temporary one. */
static const char *fresh(const char *name) {
  const char *path = in_scratch("%s", name);
  scratch_remove(path);
  mkdir(path, 0755);
  return path;
}

/* A path in a folder, valid for the next 50 calls. */
static const char *below(const char *folder, const char *name) {
  static char path[50][HD_PATH_BYTES];
  static int next;
  char *out = path[next++ % 50];
  if (snprintf(out, HD_PATH_BYTES, "%s/%s", folder, name) >= HD_PATH_BYTES)
    bail_out("expected a short path, found %s", name);
  return out;
}

static void test_writing(void) {
  const char *folder = fresh("writing"), *path = below(folder, "file");
  is_int(write_job(path, (job){'a', LONG, .fails = HD_OK}), HD_OK, "a new file is written");
  is_int(letters_in(path, LONG), 'a', "and has its content");
  is_int(write_job(path, (job){'b', 10, .fails = HD_OK}), HD_OK, "a shorter one in its place");
  is_int(letters_in(path, 10), 'b', "and nothing of the old is left");
  is_int(write_job(path, (job){'c', 0, .fails = HD_OK}), HD_OK, "an empty one in its place");
  is_int(letters_in(path, 0), 'e', "is empty");
  is_int(entries_in(folder), 1, "there is one file in the folder");
  is_int(chdir(folder), 0, "in the folder itself");
  is_int(write_job("plain-name", (job){'d', 5, .fails = HD_OK}), HD_OK, "a path without a folder is written");
  is_int(letters_in(below(folder, "plain-name"), 5), 'd', "and lies there");
  is_int(chdir("/"), 0, "and back");
}

/* A write that fails, over a file and where there was none. */
static void write_fails(job what, hd_status want, const char *says, const char *name) {
  const char *folder = fresh("failing"), *path = below(folder, "file"), *other = below(folder, "other");
  write_job(path, (job){'o', 1000, .fails = HD_OK});
  struct rlimit was, little;
  getrlimit(RLIMIT_FSIZE, &was);
  little = was;
  little.rlim_cur = 20000;
  held before = held_now();
  for (int i = 0; i < 2; i++) {
    if (what.letter == 'l')
      setrlimit(RLIMIT_FSIZE, &little);
    hd_status status = write_job(i ? other : path, what);
    setrlimit(RLIMIT_FSIZE, &was);
    if (what.fails)
      ok(status == want && !strcmp(hd_ctx_message(ctx), says), "%s: status and message are those of the writer", name);
    else
      refuses(status, want, ctx, i ? other : path, says, "%s is reported", name);
  }
  is_int(letters_in(path, 1000), 'o', "%s: the old content is there", name);
  ok(!hd__file_exists(other), "%s: where there was no file is none", name);
  is_int(entries_in(folder), 1, "%s: nothing is left behind", name);
  holds_same(before, "%s: no memory and no open file is, either", name);
}

static void test_failing_writes(void) {
  signal(SIGXFSZ, SIG_IGN);
  write_fails((job){'x', LONG, .fails = HD_E_NOTFINITE}, HD_E_NOTFINITE, "the writer's own message",
              "a writer that gives up");
  if (access("/dev/full", W_OK) == 0) {
    write_fails((job){'x', LONG, .full = 1}, HD_E_IO, "free some space", "a full disk, seen while writing");
    write_fails((job){'x', 10, .full = 1}, HD_E_IO, "free some space", "a full disk, seen at the end");
  } else
    skip(12, "no /dev/full here");
  write_fails((job){'l', LONG, .full = 0}, HD_E_IO, "limit on file sizes", "a limit on file sizes");
}

/* What lies in the way of a write. */
static void path_refused(const char *folder, const char *path, hd_status want, const char *place, const char *says,
                         const char *name) {
  int entries = entries_in(folder);
  held before = held_now();
  hd_status status = write_job(path, (job){'x', 10, .fails = HD_OK});
  refuses(status, want, ctx, place, says, "%s is refused", name);
  is_int(entries_in(folder), entries, "%s: nothing is left behind", name);
  holds_same(before, "%s: no memory and no open file is, either", name);
}

static void test_bad_paths(void) {
  const char *folder = fresh("paths"), *path = below(folder, "missing/file");
  path_refused(folder, path, HD_E_IO, path, "No such file", "a missing folder");
  put_file(below(folder, "plain"), "x", 1);
  path = below(folder, "plain/file");
  path_refused(folder, path, HD_E_IO, path, "Not a directory", "a file instead of a folder");
  path = below(folder, "taken");
  mkdir(path, 0755);
  path_refused(folder, path, HD_E_IO, path, "Is a directory", "a folder in the file's place");
  ok(hd__file_is_folder(path), "and that folder is still there");
  char name[400];
  memset(name, 'n', sizeof name - 1);
  name[sizeof name - 1] = 0;
  path = below(folder, name);
  path_refused(folder, path, HD_E_IO, path, "too long", "a name of 400 letters");
  static char longest[HD_PATH_BYTES + 1];
  memset(longest, '/', sizeof longest - 1);
  path_refused(folder, longest, HD_E_USAGE, "/", "shorter than 4096 bytes", "a path of 4096 letters");
  int added = snprintf(name, sizeof name, "..tmp-%016x", 0), length = HD_PATH_BYTES - added;
  memcpy(longest, folder, strlen(folder));
  longest[length - 1] = 'x';
  longest[length] = 0;
  path_refused(folder, longest, HD_E_USAGE, "/", "shorter than 4096 bytes",
               "a path that is too long for a name beside it");
  longest[length - 2] = 'x';
  longest[length - 1] = 0;
  is_int(write_job(longest, (job){'x', 10, .fails = HD_OK}), HD_OK, "one letter less is written");
  path = below(folder, "mine");
  mkdir(path, 0755);
  put_file(below(path, "file"), "old", 3);
  chmod(path, 0555);
  if (lose_rights()) {
    path_refused(path, below(path, "file"), HD_E_IO, below(path, "file"), "Permission denied",
                 "a folder that may not be written");
    path_refused(path, below(path, "new"), HD_E_IO, below(path, "new"), "choose a path", "a new file in it");
  } else
    skip(6, "root cannot give up its rights here");
  regain_rights();
  chmod(path, 0755);
}

/* A reader that reads repeatedly until it is stopped. */
typedef struct reader {
  char path[SCRATCH_PATH_BYTES];
  atomic_int stop, looks, wrong, seen[2];
  int (*look)(const char *path); /* 0 or 1: what it saw, -1: nothing whole */
} reader;

static void *read_on(void *arg) {
  reader *r = arg;
  while (!atomic_load(&r->stop)) {
    int saw = r->look(r->path);
    atomic_fetch_add(saw < 0 ? &r->wrong : &r->seen[saw], 1);
    atomic_fetch_add(&r->looks, 1);
  }
  return NULL;
}

static int look_at_file(const char *path) {
  int letter = letters_in(path, LONG);
  return letter == 'a' ? 0 : letter == 'b' ? 1 : -1;
}

static int look_at_link(const char *path) {
  char target[16] = "";
  ssize_t length = readlink(path, target, sizeof target);
  return length == 5 && !memcmp(target, "first", 5) ? 0 : length == 6 && !memcmp(target, "second", 6) ? 1 : -1;
}

/* Folders are only looked at for being there. */
static int look_at_folder(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0)
    close(fd);
  return fd < 0 ? -1 : 0;
}

static hd_status replace_file(const char *path, int round) {
  return write_job(path, (job){round % 2 ? 'b' : 'a', LONG, .fails = HD_OK});
}

static hd_status replace_link(const char *path, int round) {
  return hd__file_link(ctx, round % 2 ? "second" : "first", path);
}

static hd_status replace_folder(const char *path, int round) {
  char temporary[HD_PATH_BYTES];
  HD_TRY(hd__file_folder_begin(temporary, ctx, path));
  put_file(below(temporary, "content"), round % 2 ? "b" : "a", 1);
  return hd__file_folder_commit(ctx, temporary, path);
}

/* Replaces until the reader has read often, and has seen both where they differ. */
static void replace_under_reader(const char *name, hd_status (*replace)(const char *, int), int (*look)(const char *),
                                 int rounds) {
  enum { LOOKS = 300 };
  int both = look != look_at_folder;
  const char *folder = fresh("replaced");
  reader r = {.look = look};
  snprintf(r.path, sizeof r.path, "%s", in_scratch("replaced/it"));
  pthread_t thread;
  hd_status status = replace(r.path, 0);
  if (pthread_create(&thread, NULL, read_on, &r) != 0)
    bail_out("expected a thread, found none");
  int round = 1;
  for (; status == HD_OK; round++) {
    status = replace(r.path, round);
    int seen = atomic_load(&r.seen[0]) > 0 && (!both || atomic_load(&r.seen[1]) > 0);
    if (atomic_load(&r.wrong) > 0 || (round >= rounds && atomic_load(&r.looks) >= LOOKS && seen))
      break;
  }
  atomic_store(&r.stop, 1);
  pthread_join(thread, NULL);
  if (!is_int(status, HD_OK, "%s: replaced %s", name, "again and again"))
    diag("%s", hd_ctx_message(ctx));
  diag("%d rounds, %d looks", round, atomic_load(&r.looks));
  is_int(atomic_load(&r.wrong), 0, "%s: a reader always finds the old one or the new one, whole", name);
  is_int(entries_in(folder), 1, "%s: nothing is left behind", name);
}

static int can_exchange(void) {
  const char *folder = fresh("exchange");
  put_file(below(folder, "a"), "a", 1);
  put_file(below(folder, "b"), "b", 1);
  return renameat2(AT_FDCWD, below(folder, "a"), AT_FDCWD, below(folder, "b"), RENAME_EXCHANGE) == 0;
}

static void test_replacing(void) {
  replace_under_reader("a file", replace_file, look_at_file, 60);
  replace_under_reader("a link", replace_link, look_at_link, 1500);
  if (can_exchange())
    replace_under_reader("a folder", replace_folder, look_at_folder, 100);
  else
    skip(3, "this file system cannot exchange names");
}

static bool writes_these(const char *name) {
  return !strcmp(name, "file") || !strcmp(name, "run") || !strcmp(name, "link");
}

/* The process dies while half of the new file is written. */
static void test_kill(void) {
  const char *folder = fresh("killed"), *path = below(folder, "file");
  int ends[2], status = 0;
  char half = 0;
  write_job(path, (job){'o', 1000, .fails = HD_OK});
  if (pipe(ends) != 0)
    bail_out("expected a pipe, found none");
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    write_job(path, (job){'n', LONG, .tell = ends[1]});
    _exit(1);
  }
  close(ends[1]);
  is_int(read(ends[0], &half, 1), 1, "half of a file is written when the process is killed");
  close(ends[0]);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it did not end before");
  is_int(letters_in(path, 1000), 'o', "the old content is there");
  is_int(entries_in(folder), 2, "beside the partial file");
  mkdir(below(folder, ".run.tmp-0123456789abcdef"), 0755);
  put_file(below(folder, ".run.tmp-0123456789abcdef/file"), "x", 1);
  put_file(below(folder, ".run.tmp-0123456789abcdef/.file.tmp-0123456789abcdef"), "x", 1);
  is_int(symlink("step-1", below(folder, ".link.tmp-0123456789abcdef")), 0, "and beside a link");
  hd__file_remove_leftovers(folder, writes_these);
  is_int(entries_in(folder), 1, "all of it can be removed, and a partial folder");
  hd__file_remove_leftovers(in_scratch("missing"), writes_these);
}

/* Names that look like those of unfinished files, and what looks like them and holds more. */
static void test_no_leftovers(void) {
  static const char *const names[] = {".hidden",
                                      "my.tmp-1",
                                      ".file.tmp-1",
                                      ".file.tmp-",
                                      ".file.tmp-notes",
                                      ".tmp-0123456789abcdef",
                                      "file.tmp-0123456789abcdef",
                                      ".other.tmp-0123456789abcdef",
                                      ".file.tmp-0123456789ABCDEF",
                                      ".file.tmp-0123456789abcdefg",
                                      ".file.tmp-0123456789abcdef~"};
  const int count = sizeof names / sizeof *names;
  const char *folder = fresh("strangers"), *elsewhere = fresh("elsewhere");
  for (int i = 0; i < count; i++)
    put_file(below(folder, names[i]), "x", 1);
  put_file(below(elsewhere, "file"), "x", 1);
  mkdir(below(folder, ".run.tmp-0123456789abcdef"), 0755);
  put_file(below(folder, ".run.tmp-0123456789abcdef/notes"), "x", 1);
  mkdir(below(folder, ".run.tmp-0123456789abcde0"), 0755);
  mkdir(below(folder, ".run.tmp-0123456789abcde0/file"), 0755);
  is_int(symlink(elsewhere, below(folder, ".link.tmp-0123456789abcdef")), 0, "a link elsewhere");
  is_int(mkfifo(below(folder, ".file.tmp-0123456789abcde3"), 0600), 0, "a pipe");
  hd__file_remove_leftovers(folder, writes_these);
  is_int(entries_in(folder), count + 4, "what is no leftover stays");
  ok(entries_in(below(folder, ".run.tmp-0123456789abcdef")) == 1 &&
         entries_in(below(folder, ".run.tmp-0123456789abcde0")) == 1,
     "with what it holds");
  is_int(entries_in(elsewhere), 1, "and so does what a link names");
  const char *path = below(folder, "link");
  is_int(symlink(elsewhere, path), 0, "a link to a folder");
  hd__file_remove_folder(path);
  ok(entries_in(elsewhere) == 1 && hd__file_is_folder(path), "is no folder to remove");
  put_file(below(folder, ".file.tmp-0123456789abcdef"), "x", 1);
  const bool given = chown(below(folder, ".file.tmp-0123456789abcdef"), 12345, (gid_t)-1) == 0;
  hd__file_remove_leftovers(folder, writes_these);
  if (given)
    ok(hd__file_exists(below(folder, ".file.tmp-0123456789abcdef")), "another user's file stays");
  else
    skip(1, "only root may give a file away");
}

static void test_folders(void) {
  char temporary[HD_PATH_BYTES], half[HD_PATH_BYTES];
  const char *folder = fresh("folders"), *path = below(folder, "step-1");
  is_int(hd__file_folder_begin(half, ctx, path), HD_OK, "a folder begins under another name");
  ok(hd__file_is_folder(half) && !hd__file_exists(path), "beside its name");
  put_file(below(half, "half"), "x", 1);
  is_int(hd__file_folder_begin(temporary, ctx, path), HD_OK, "begun again");
  is_int(entries_in(temporary), 0, "it is empty");
  ok(strcmp(half, temporary) && entries_in(half) == 1, "and the one begun before is as it was");
  hd__file_remove_folder(half);
  put_file(below(temporary, "file"), "1", 1);
  is_int(hd__file_folder_commit(ctx, temporary, path), HD_OK, "a folder gets its name");
  ok(letters_in(below(path, "file"), 1) == '1' && !hd__file_exists(temporary), "with what is in it");
  hd__file_folder_begin(temporary, ctx, path);
  put_file(below(temporary, "other"), "2", 1);
  is_int(hd__file_folder_commit(ctx, temporary, path), HD_OK, "a second one takes its place");
  ok(letters_in(below(path, "other"), 1) == '2' && !hd__file_exists(below(path, "file")),
     "and nothing of the first is left");
  is_int(entries_in(folder), 1, "nor beside it");
  path = below(folder, "a-file");
  put_file(path, "x", 1);
  hd__file_folder_begin(temporary, ctx, path);
  refuses(hd__file_folder_commit(ctx, temporary, path), HD_E_IO, ctx, path, "found a file; move that away",
          "a file in its place");
  is_int(letters_in(path, 1), 'x', "and the file is still there");
  hd__file_remove_folder(temporary);
  is_int(unlink(path), 0, "it goes");
  is_int(symlink("step-1", path), 0, "a link comes");
  hd__file_folder_begin(temporary, ctx, path);
  ok(hd__file_folder_commit(ctx, temporary, path) == HD_OK && hd__file_is_folder(path), "whose place it may take");
  is_int(letters_in(below(folder, "step-1/other"), 1), '2', "what the link pointed to stays");
  is_int(entries_in(folder), 2, "and nothing else is left");
  path = below(folder, "step-1");
  refuses(hd__file_folder_commit(ctx, below(folder, "missing"), path), HD_E_IO, ctx, path, "No such file",
          "a folder that is not there");
  is_int(letters_in(below(path, "other"), 1), '2', "leaves the existing one");
  path = below(folder, "missing/step-2");
  refuses(hd__file_folder_begin(temporary, ctx, path), HD_E_IO, ctx, path, "No such file", "a folder in a missing one");
  is_int(entries_in(folder), 2, "and nothing is left behind");
}

static void test_make_folder(void) {
  const char *folder = fresh("made");
  is_int(hd__file_make_folder(ctx, below(folder, "a/b/c")), HD_OK, "a folder and those above it");
  ok(hd__file_is_folder(below(folder, "a/b/c")), "are made");
  is_int(hd__file_make_folder(ctx, below(folder, "a/b/c")), HD_OK, "what is there may be made again");
  is_int(hd__file_make_folder(ctx, below(folder, "a//b/d/")), HD_OK, "slashes may be many");
  ok(hd__file_is_folder(below(folder, "a/b/d")), "and are one");
  put_file(below(folder, "file"), "x", 1);
  refuses(hd__file_make_folder(ctx, below(folder, "file")), HD_E_IO, ctx, below(folder, "file"), "Not a directory",
          "a file in its place");
  refuses(hd__file_make_folder(ctx, below(folder, "file/x/y")), HD_E_IO, ctx, below(folder, "file/x"),
          "Not a directory", "a file above");
  refuses(hd__file_make_folder(ctx, ""), HD_E_IO, ctx, "", "Not a directory", "no name");
  chmod(folder, 0555);
  if (lose_rights())
    refuses(hd__file_make_folder(ctx, below(folder, "new")), HD_E_IO, ctx, below(folder, "new"), "Permission denied",
            "no permission");
  else
    skip(1, "root cannot give up its rights here");
  regain_rights();
  chmod(folder, 0755);
  is_int(entries_in(folder), 2, "and nothing is left behind");
}

static void test_links(void) {
  const char *folder = fresh("links"), *path = below(folder, "last");
  char target[64] = "";
  is_int(hd__file_link(ctx, "step-1", path), HD_OK, "a link");
  is_int(hd__file_link(ctx, "step-22", path), HD_OK, "in place of a link");
  is_int(readlink(path, target, sizeof target - 1), 7, "has the length of its target");
  is_str(target, "step-22", "and points there");
  mkdir(below(folder, "taken"), 0755);
  path = below(folder, "taken");
  refuses(hd__file_link(ctx, "x", path), HD_E_IO, ctx, path, "found a folder", "a folder in the link's place");
  path = below(folder, "file");
  put_file(path, "x", 1);
  refuses(hd__file_link(ctx, "x", path), HD_E_IO, ctx, path, "found a file", "a file in the link's place");
  is_int(letters_in(path, 1), 'x', "which is still there");
  path = below(folder, "missing/last");
  refuses(hd__file_link(ctx, "x", path), HD_E_IO, ctx, path, "No such file", "a link in a missing folder");
  is_int(entries_in(folder), 3, "and nothing is left behind");
}

static void test_join(void) {
  char out[HD_PATH_BYTES], folder[HD_PATH_BYTES + 1];
  ok(hd__file_join(out, ctx, "a/b", "c") == HD_OK && !strcmp(out, "a/b/c"), "folder and name");
  memset(folder, 'f', sizeof folder - 1);
  folder[HD_PATH_BYTES - 3] = 0;
  ok(hd__file_join(out, ctx, folder, "c") == HD_OK && strlen(out) == HD_PATH_BYTES - 1, "the longest path");
  refuses(hd__file_join(out, ctx, folder, "cc"), HD_E_USAGE, ctx, "fff", "shorter than 4096 bytes", "a longer one");
}

static void test_lock(void) {
  const char *folder = fresh("locked");
  char text[64];
  int first, second;
  held before = held_now();
  ok(hd__file_lock_folder(&first, ctx, folder, 0) == HD_OK && first >= 0, "a folder is locked");
  refuses(hd__file_lock_folder(&second, ctx, folder, 0), HD_E_IO, ctx, folder, "wait for it",
          "a folder that another one writes");
  snprintf(text, sizeof text, "(process %d on ", (int)getpid());
  ok(strstr(hd_ctx_message(ctx), text) != NULL, "which is named");
  is_int(second, -1, "is not locked");
  hd__file_unlock(&first);
  is_int(first, -1, "it is given back");
  ok(hd__file_lock_folder(&second, ctx, folder, 0) == HD_OK && second >= 0, "and locked again");
  close(second); /* as when a process is killed */
  is_int(entries_in(folder), 1, "a process that is killed leaves the file");
  ok(hd__file_lock_folder(&second, ctx, folder, 0) == HD_OK && second >= 0, "and no lock");
  hd__file_unlock(&second);
  hd__file_unlock(&second);
  put_file(below(folder, "victim"), "v", 1);
  is_int(symlink("victim", below(folder, ".lock")), 0, "a link is planted in the lock's place");
  refuses(hd__file_lock_folder(&first, ctx, folder, 0), HD_E_IO, ctx, folder, "symbolic links", "a planted link");
  is_int(letters_in(below(folder, "victim"), 1), 'v', "is not followed");
  unlink(below(folder, ".lock"));
  unlink(below(folder, "victim"));
  refuses(hd__file_lock_folder(&first, ctx, below(folder, "missing"), 0), HD_E_IO, ctx, folder, "No such file",
          "a missing folder");
  is_int(entries_in(folder), 0, "a lock leaves nothing behind");
  holds_same(before, "and no open file");
}

static void end_child(pid_t child) {
  if (child <= 0)
    return;
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

/* A child that does something with a folder or a lock's file; returns when it has, and lets it wait to be killed. */
static pid_t child_with(bool (*act)(const char *file), const char *file) {
  int ends[2];
  char said = 0;
  if (pipe(ends) != 0)
    bail_out("expected a pipe, found none");
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60); /* after a failed test too */
    if (write(ends[1], act(file) ? "y" : "n", 1) != 1)
      _exit(1);
    for (;;)
      pause();
  }
  close(ends[1]);
  if (read(ends[0], &said, 1) != 1)
    bail_out("expected an answer of a child, found none");
  close(ends[0]);
  if (said == 'y')
    return child;
  end_child(child);
  return 0;
}

static bool lock_to_write(const char *folder) {
  int lock;
  return hd__file_lock_folder(&lock, ctx, folder, 0) == HD_OK;
}

static pid_t lock_elsewhere(const char *folder) {
  const pid_t child = child_with(lock_to_write, folder);
  if (child == 0)
    bail_out("expected a locked folder, found none");
  return child;
}

/* An flock of the folder is what another host does not see: what it does see is a lock of a file in it. */
static void test_lock_between_hosts(void) {
  const char *folder = fresh("shared");
  const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int lock;
  pid_t child = lock_elsewhere(folder);
  int fd = open(below(folder, ".lock"), O_RDWR | O_CLOEXEC);
  ok(fd >= 0 && fcntl(fd, F_OFD_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES),
     "the lock is one that NFS passes on to its server");
  close(fd);
  refuses(hd__file_lock_folder(&lock, ctx, folder, 0), HD_E_IO, ctx, folder, "another heddle", "a second process");
  end_child(child);
  ok(hd__file_lock_folder(&lock, ctx, folder, 0) == HD_OK, "until the first was killed");
  hd__file_unlock(&lock);
}

static bool lock_to_read(const char *file) {
  const struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  return fd >= 0 && fcntl(fd, F_SETLK, &whole) == 0;
}

static bool become_other_user(void) {
  enum { OTHER = 65533 };
  return setgroups(0, NULL) == 0 && setresgid(OTHER, OTHER, OTHER) == 0 && setresuid(OTHER, OTHER, OTHER) == 0;
}

static bool lock_to_read_as_other(const char *file) { return become_other_user() && lock_to_read(file); }

static bool is_locked_for_other(const char *file) {
  char folder[HD_PATH_BYTES];
  snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(file, '/') - file), file);
  return become_other_user() && hd__file_is_locked(folder);
}

/* A program that is no heddle locks what a killed one has left. */
static void test_foreign_lock(void) {
  const char *folder = fresh("foreign");
  char dead[64], who[HD_LOCK_WHO_BYTES], text[64];
  int lock;
  pid_t child = lock_elsewhere(folder);
  snprintf(dead, sizeof dead, "process %d", (int)child);
  is_int(hd__file_lock_state(who, folder), HD_LOCK_HELD, "a process that writes a folder has its lock");
  ok(strstr(who, dead) != NULL, "and is named: %s", who);
  end_child(child);
  is_int(hd__file_lock_state(who, folder), HD_LOCK_FREE, "until it is killed");
  const pid_t other = child_with(lock_to_read, below(folder, ".lock"));
  ok(other > 0, "another program locks the file for reading");
  is_int(hd__file_lock_state(who, folder), HD_LOCK_FOREIGN, "which is not taken for a run");
  ok(!hd__file_is_locked(folder), "that goes on");
  snprintf(text, sizeof text, "locked by process %d", (int)other);
  refuses(hd__file_lock_folder(&lock, ctx, folder, 0), HD_E_IO, ctx, folder, text, "a folder that it locks");
  ok(!strstr(hd_ctx_message(ctx), dead), "the dead process is not named");
  end_child(other);
  ok(hd__file_lock_folder(&lock, ctx, folder, 0) == HD_OK, "afterwards it is locked");
  hd__file_unlock(&lock);
}

/* A second user cannot lock the file, and sees whether it is locked. */
static void test_lock_of_user(void) {
  const char *folder = fresh("of_user"), *file = below(folder, ".lock");
  const mode_t before = umask(0);
  struct stat is = {0};
  int lock;
  put_file(file, "", 0); /* as an earlier heddle left it */
  chmod(file, 0666);
  ok(hd__file_lock_folder(&lock, ctx, folder, 0) == HD_OK && stat(file, &is) == 0 && (is.st_mode & 0777) == 0600,
     "a lock's file that was left is made this user's alone");
  hd__file_unlock(&lock);
  ok(hd__file_lock_folder(&lock, ctx, folder, 0) == HD_OK && stat(file, &is) == 0 && (is.st_mode & 0777) == 0600,
     "a new one is, with any umask");
  umask(before);
  if (geteuid() == 0) {
    chmod(scratch(), 0755);
    chmod(folder, 0755);
    close(lock); /* as when the process is killed */
    is_int(child_with(lock_to_read_as_other, file), 0, "a second user cannot lock what a killed process left");
    ok(hd__file_lock_folder(&lock, ctx, folder, 0) == HD_OK, "and the first user can");
    const pid_t child = child_with(is_locked_for_other, file);
    ok(child > 0, "and sees that it is locked");
    end_child(child);
  } else {
    skip(3, "there is no second user");
  }
  hd__file_unlock(&lock);
}

typedef struct pair {
  pthread_barrier_t *half;
  const char *path;
  char letter;
  hd_status status;
} pair;

static hd_status write_together(FILE *to, hd_ctx *at, void *arg) {
  const pair *p = arg;
  for (int i = 0; i < LONG; i++) {
    if (i == LONG / 2 && fflush(to) == 0)
      pthread_barrier_wait(p->half);
    fputc(p->letter, to);
  }
  return HD_OK;
}

static void *write_as_one_of_two(void *arg) {
  pair *p = arg;
  p->status = hd__file_write(NULL, p->path, write_together, p);
  return NULL;
}

/* Two sessions of a program may decode the same pictures into the same file. */
static void test_threads(void) {
  const char *folder = fresh("threads"), *path = below(folder, "file");
  pthread_barrier_t half;
  pthread_t thread;
  pair both[2] = {{&half, path, 'a', HD_OK}, {&half, path, 'b', HD_OK}};
  pthread_barrier_init(&half, NULL, 2);
  if (pthread_create(&thread, NULL, write_as_one_of_two, &both[0]))
    bail_out("no thread");
  write_as_one_of_two(&both[1]);
  pthread_join(thread, NULL);
  pthread_barrier_destroy(&half);
  ok(both[0].status == HD_OK && both[1].status == HD_OK, "two threads write one file at the same time");
  const int letter = letters_in(path, LONG);
  ok(letter == 'a' || letter == 'b', "which is what one of them wrote");
  is_int(entries_in(folder), 1, "and nothing else is left");
}

/* Writes the same path from inside of a write of it: by the same thread, as threads of two containers whose numbers are
 * equal. */
static hd_status write_within(FILE *to, hd_ctx *at, void *arg) {
  const char *path = arg;
  for (int i = 0; i < LONG; i++) {
    if (i == LONG / 2 && (fflush(to) != 0 || write_job(path, (job){'i', LONG, .fails = HD_OK}) != HD_OK))
      return HD_E_IO;
    fputc('o', to);
  }
  return letters_in(path, LONG) == 'i' ? HD_OK : HD_E_FORMAT;
}

static void test_equal_numbers(void) {
  const char *folder = fresh("equal"), *path = below(folder, "file");
  char own[64];
  is_int(hd__file_write(ctx, path, write_within, (void *)(size_t)path), HD_OK, "two of one number write one file");
  is_int(letters_in(path, LONG), 'o', "and neither writes into the other's");
  is_int(entries_in(folder), 1, "and nothing else is left");
  put_file(below(folder, "victim"), "v", 1);
  snprintf(own, sizeof own, ".file.tmp-%ld", (long)getpid());
  is_int(symlink("victim", below(folder, own)), 0, "a link is planted where the number of a thread would lead");
  is_int(write_job(path, (job){'n', 10, .fails = HD_OK}), HD_OK, "a file is written beside it");
  is_int(letters_in(below(folder, "victim"), 1), 'v', "what the link names is as it was");
  is_int(entries_in(folder), 3, "and the link is there");
}

static void test_mapping(void) {
  const char *folder = fresh("mapped"), *path = below(folder, "file");
  hd_mapping map, empty;
  held before = held_now();
  write_job(path, (job){'a', LONG, .fails = HD_OK});
  ok(hd__file_map(&map, ctx, path) == HD_OK && map.length == LONG && map.bytes[0] == 'a' && map.bytes[LONG - 1] == 'a',
     "a file is mapped");
  write_job(path, (job){'b', 10, .fails = HD_OK});
  ok(map.bytes[0] == 'a' && map.bytes[LONG - 1] == 'a',
     "a mapping of the old file stays valid when a new one replaces it");
  hd__file_unmap(&map);
  hd__file_unmap(&map);
  ok(!map.bytes && !map.length, "nothing is left after unmapping, even twice");
  put_file(path, "abc", 3);
  hd_mapping copy;
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  ok(hd__file_read(&copy, ctx, path) == HD_OK && copy.length == 3, "a file is copied");
  ok(fd >= 0 && pwrite(fd, "xyz", 3, 0) == 3 && !memcmp(copy.bytes, "abc", 3), "a copy stays as it was read");
  close(fd);
  hd__file_unmap(&copy);
  put_file(path, "", 0);
  ok(hd__file_read(&empty, ctx, path) == HD_OK && !empty.bytes && !empty.length, "an empty copy has no bytes");
  ok(hd__file_map(&empty, ctx, path) == HD_OK && !empty.bytes && !empty.length, "an empty file has no bytes");
  hd__file_unmap(&empty);
  holds_same(before, "and nothing is left behind");
}

int main(void) {
  if (hd_ctx_create(&ctx) != HD_OK)
    bail_out("out of memory");
  test_writing();
  test_failing_writes();
  test_bad_paths();
  test_replacing();
  test_kill();
  test_no_leftovers();
  test_folders();
  test_make_folder();
  test_links();
  test_join();
  test_lock();
  test_lock_between_hosts();
  test_foreign_lock();
  test_lock_of_user();
  test_threads();
  test_equal_numbers();
  test_mapping();
  hd_ctx_destroy(ctx);
  return done_testing();
}
