/* Paths, and temporary names: see file.h and file_name.h. */
#include "platform/file_name.h"

#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "platform/clock.h"

enum { NAME_BYTES = 128, DIGITS = 16 };

static hd_status check_path(hd_ctx *ctx, int bytes, const char *from) {
  return bytes < HD_PATH_BYTES
             ? HD_OK
             : hd__fail(ctx, HD_E_USAGE,
                        "%.200s: expected a path shorter than %d bytes, found a longer one; choose another folder",
                        from, HD_PATH_BYTES);
}

hd_status hd__file_join(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *folder, const char *name) {
  return check_path(ctx, snprintf(out, HD_PATH_BYTES, "%s/%s", folder, name), folder);
}

/* Numbers of processes and threads repeat in containers and on other hosts. Where the system gives no random bytes,
 * exclusive creation alone keeps names apart. */
static uint64_t random_word(void) {
  static _Atomic uint64_t calls;
  uint64_t word;
  if (getrandom(&word, sizeof word, GRND_NONBLOCK) == (ssize_t)sizeof word)
    return word;
  return ((uint64_t)hd__clock_ns() ^ (uint64_t)getpid() << 40 ^ ++calls << 32) * UINT64_C(0x9e3779b97f4a7c15);
}

hd_status hd__temporary_name(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *path, const char *mark) {
  const char *slash = strrchr(path, '/');
  int folder = slash ? (int)(slash - path) + 1 : 0;
  int n = snprintf(out, HD_PATH_BYTES, "%.*s.%.*s%s%0*llx", folder, path, NAME_BYTES, path + folder, mark, DIGITS,
                   (unsigned long long)random_word());
  return check_path(ctx, n, path);
}

const char *hd__name_behind(char name[HD_NAME_MAX + 1], const char *temporary, const char *mark) {
  static const size_t mark_bytes = sizeof HD_TMP_MARK - 1, added = mark_bytes + DIGITS;
  const size_t length = strlen(temporary);
  if (*temporary != '.' || length < 2 + added || length > HD_NAME_MAX)
    return NULL;
  const char *at = temporary + length - added;
  if (memcmp(at, mark, mark_bytes) || strspn(at + mark_bytes, "0123456789abcdef") != DIGITS)
    return NULL;
  snprintf(name, HD_NAME_MAX + 1, "%.*s", (int)(at - temporary) - 1, temporary + 1);
  return name;
}
