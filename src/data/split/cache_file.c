/* The cache's folder, and small files in it; see cache_file.h. */
#include "data/split/cache_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/event_log.h"

/* A file's header, in this machine's byte order. */
typedef struct head {
  uint64_t magic, key, checksum;
  int64_t bytes;
} head;

static const uint64_t magic = UINT64_C(0x3165686361636468); /* "hdcache1" */

/* A folder in which users may rename each other's files is not used. */
static hd_status check_folder(hd_ctx *ctx, const char *folder) {
  struct stat info;
  if (stat(folder, &info) != 0 || !(info.st_mode & S_IWOTH) || info.st_mode & S_ISVTX)
    return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "--cache disk: expected a folder that other users may not write, or a sticky one, found %s of mode "
                  "%o; change its mode, or set HEDDLE_CACHE to another folder",
                  folder, (unsigned)info.st_mode & 07777);
}

hd_status hd__cache_file_path(char path[HD_PATH_BYTES], char folder[HD_PATH_BYTES], hd_ctx *ctx, const char *prefix,
                              uint64_t key) {
  const char *variable = getenv("HEDDLE_CACHE"), *home = getenv("HOME");
  char name[64];
  if ((!variable || !*variable) && (!home || !*home))
    return hd__fail(ctx, HD_E_USAGE,
                    "--cache disk: expected a folder in HEDDLE_CACHE or HOME, found none; set it, or use --cache ram");
  if (variable && *variable)
    HD_TRY(hd__file_join(folder, ctx, variable, ""));
  else
    HD_TRY(hd__file_join(folder, ctx, home, ".cache/heddle"));
  HD_TRY(check_folder(ctx, folder));
  snprintf(name, sizeof name, "%s-%016llx", prefix, (unsigned long long)key);
  return hd__file_in_shared(path, ctx, folder, name);
}

hd_status hd__cache_file_read(void *array, bool *found, hd_ctx *ctx, const char *prefix, uint64_t key, size_t bytes) {
  char path[HD_PATH_BYTES], folder[HD_PATH_BYTES];
  hd_ctx quiet = {0};
  HD_MAPPED file = {0};
  head h;
  HD_TRY(hd__cache_file_path(path, folder, ctx, prefix, key));
  *found = hd__file_map_guarded(&file, &quiet, path) == HD_OK && file.length == sizeof h + bytes;
  if (!*found)
    return HD_OK;
  memcpy(&h, file.bytes, sizeof h);
  memcpy(array, file.bytes + sizeof h, bytes); /* verified below: a mapping changes with its file */
  *found = h.magic == magic && h.key == key && h.bytes == (int64_t)bytes && h.checksum == hd__xxh3(array, bytes);
  HD_LOG(DATA, "%s %s", path, *found ? "read" : "is damaged, and made again");
  return HD_OK;
}

typedef struct kept {
  head head;
  const void *array;
} kept;

static hd_status write_all(FILE *to, hd_ctx *ctx, void *arg) {
  const kept *k = arg;
  hd__file_guard(to);
  fwrite(&k->head, sizeof k->head, 1, to); /* errors are found when the file is closed */
  fwrite(k->array, 1, (size_t)k->head.bytes, to);
  return HD_OK;
}

hd_status hd__cache_file_write(hd_ctx *ctx, const char *prefix, uint64_t key, const void *array, size_t bytes) {
  char path[HD_PATH_BYTES], folder[HD_PATH_BYTES];
  kept k = {{magic, key, hd__xxh3(array, bytes), (int64_t)bytes}, array};
  HD_TRY(hd__cache_file_path(path, folder, ctx, prefix, key));
  HD_TRY(hd__file_make_folder(ctx, folder));
  HD_TRY(hd__file_write_cache(ctx, path, write_all, &k));
  HD_LOG(DATA, "%s written: %zu bytes", path, bytes);
  return HD_OK;
}
