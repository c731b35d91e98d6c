/* A temporary folder for a test, and the checks of every test of failures: the message is one line with expected, found
 * and remedy, and no memory, open file, mapping or file is left behind.
 *
 * Memory is that in use by the allocator; compare two moments after the same work was done once before, so that memory
 * that libraries keep is allocated already. Under a sanitizer it is always 0; the sanitizer checks for leaks instead.
 *
 * To be included before any system header. */
#ifndef HD_TESTS_SCRATCH_H
#define HD_TESTS_SCRATCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <ftw.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/status.h"
#include "tap.h"

enum { SCRATCH_PATH_BYTES = 512 };

static char scratch_root[SCRATCH_PATH_BYTES - 256];
static pid_t scratch_owner;

static int scratch_remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
  remove(path);
  return 0;
}

__attribute__((unused)) static void scratch_remove(const char *path) {
  nftw(path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void scratch_end(void) {
  if (getpid() == scratch_owner)
    scratch_remove(scratch_root);
}

/* The folder, made at the first call and removed at exit. */
static const char *scratch(void) {
  if (*scratch_root)
    return scratch_root;
  const char *above = getenv("TMPDIR");
  int n = snprintf(scratch_root, sizeof scratch_root, "%s/heddle-test-XXXXXX", above && *above ? above : "/tmp");
  if (n >= (int)sizeof scratch_root || !mkdtemp(scratch_root)) {
    scratch_root[0] = 0;
    bail_out("expected to make a folder in %s, found no way", above && *above ? above : "/tmp");
  }
  scratch_owner = getpid();
  atexit(scratch_end);
  return scratch_root;
}

/* A path in the folder, valid for a few calls. */
__attribute__((unused, format(printf, 1, 2))) static const char *in_scratch(const char *fmt, ...) {
  static char path[8][SCRATCH_PATH_BYTES];
  static int next;
  TAP_NAME;
  char *out = path[next++ % 8];
  if (snprintf(out, SCRATCH_PATH_BYTES, "%s/%s", scratch(), name) >= SCRATCH_PATH_BYTES)
    bail_out("expected a short name in the temporary folder, found '%s'", name);
  return out;
}

__attribute__((unused)) static void put_file(const char *path, const void *bytes, size_t length) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0)
    bail_out("expected to write %s, found no way", path);
}

/* Root may read and write everything: as root, a test of permissions runs as another user until regain_rights(). 0 if
 * that is not possible. */
__attribute__((unused)) static int lose_rights(void) {
  enum { UNPRIVILEGED_UID = 65534 };
  return geteuid() != 0 || (chmod(scratch(), 0755) == 0 && seteuid(UNPRIVILEGED_UID) == 0);
}

__attribute__((unused)) static void regain_rights(void) {
  if (geteuid() != getuid() && seteuid(getuid()) != 0)
    bail_out("expected to become user %d again, found no way", (int)getuid());
}

/* The entries of a folder, -1 if there is none. */
__attribute__((unused)) static int entries_in(const char *path) {
  DIR *folder = opendir(path);
  int count = -2;
  while (folder && readdir(folder))
    count++;
  if (!folder)
    return -1;
  closedir(folder);
  return count;
}

__attribute__((constructor, unused)) static void scratch_start(int argc, char **argv) {
  if (argc > 0 && !getenv("GLIBC_TUNABLES") && setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1) == 0)
    execv("/proc/self/exe", argv);
}

/* What a process holds. */
typedef struct held {
  size_t bytes;
  int files, mappings;
} held;

__attribute__((unused)) static held held_now(void) {
  held now = {.files = entries_in("/proc/self/fd")};
  char line[1024];
  FILE *maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps))
    now.mappings += strstr(line, scratch()) != NULL;
  if (maps)
    fclose(maps);
  struct mallinfo2 heap = mallinfo2();
  now.bytes = heap.uordblks + heap.hblkhd;
  return now;
}

#define holds_same(before, ...) tap_holds_same(before, __FILE__, __LINE__, __VA_ARGS__)

__attribute__((unused, format(printf, 4, 5))) static int tap_holds_same(held before, const char *file, int line,
                                                                        const char *fmt, ...) {
  TAP_NAME;
  held now = held_now();
  int same = now.bytes == before.bytes && now.files == before.files && now.mappings == before.mappings;
  if (!tap_ok(same, file, line, "%s", name))
    diag("expected %zu bytes, %d open files, %d mappings, found %zu, %d, %d", before.bytes, before.files,
         before.mappings, now.bytes, now.files, now.mappings);
  return same;
}

/* Evaluates `call` with its first allocation failing, then its second, and so on until it succeeds: each failure has a
 * message that contains `says`, and leaves `nothing`; more than `least` calls were made. */
#define survives_no_memory(call, nothing, ctx, says, least, title)                                                     \
  do {                                                                                                                 \
    hd_status status_ = HD_E_NOMEM;                                                                                    \
    int wrong_ = 0;                                                                                                    \
    long count_ = 0;                                                                                                   \
    for (; status_ != HD_OK && count_ < 2000; count_++) {                                                              \
      hd__alloc_fail_after(count_);                                                                                    \
      status_ = (call);                                                                                                \
      hd__alloc_fail_after(-1);                                                                                        \
      if (status_ == HD_OK || (status_ == HD_E_NOMEM && (nothing) && strstr(hd_ctx_message(ctx), says)))               \
        continue;                                                                                                      \
      diag("allocation %ld: status %d, '%s'", count_, (int)status_, hd_ctx_message(ctx));                              \
      wrong_++;                                                                                                        \
    }                                                                                                                  \
    ok(count_ > (least) && status_ == HD_OK && !wrong_, "%s: each of %ld failed allocations is reported as such",      \
       title, count_ - 1);                                                                                             \
  } while (0)

/* The message is one line that begins with `place` ("" for any), has what was expected and found or, of a call that
 * failed, what cannot be done and a remedy, and contains `says`.
 * refuses requires a remedy after ';' too; where the place is a line of a text, as for refuses_at, what was expected
 * may be remedy enough. */
#define refuses(status, want, ctx, place, says, ...)                                                                   \
  tap_refuses(status, want, hd_ctx_message(ctx), place, says, 1, __FILE__, __LINE__, __VA_ARGS__)
#define refuses_at(status, want, ctx, place, says, ...)                                                                \
  tap_refuses(status, want, hd_ctx_message(ctx), place, says, 0, __FILE__, __LINE__, __VA_ARGS__)

__attribute__((unused, format(printf, 9, 10))) static int
tap_refuses(hd_status status, hd_status want, const char *message, const char *place, const char *says, int with_remedy,
            const char *file, int line, const char *fmt, ...) {
  TAP_NAME;
  const char *remedy = strrchr(message, ';');
  const int failed = remedy && (strstr(message, "cannot ") || strstr(message, " failed"));
  int whole = !strncmp(message, place, strlen(place));
  whole = whole && (failed || (strstr(message, "expected ") && strstr(message, ", found")));
  whole = whole && !strpbrk(message, "\n\r") && strstr(message, says);
  if (with_remedy)
    whole = whole && remedy && strlen(remedy) > 4;
  if (!tap_ok(status == want && whole, file, line, "%s", name))
    diag("expected status %d and '%s... expected ..., found ...%s' with '%s', found status %d and '%s'", want, place,
         with_remedy ? "; ..." : "", says, status, message);
  return status == want && whole;
}

#endif
