/* The pictures in a folder, for predictions: see heddle/predict.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/dataset/format.h"
#include "heddle/predict.h"
#include "platform/file.h"

enum { DEEPEST = 32 }; /* folders in each other: links may make circles */

struct hd_pictures {
  char **path;
  int64_t count, room;
};

static bool is_picture(const char *name) {
  return hd__path_ends(name, ".png") || hd__path_ends(name, ".jpg") || hd__path_ends(name, ".jpeg");
}

static hd_status add(hd_pictures *to, hd_ctx *ctx, const char *path) {
  if (to->count == to->room) {
    const int64_t room = to->room ? 2 * to->room : 64;
    char **more = hd__realloc(to->path, (size_t)room * sizeof *more);
    HD_TRY(HD_ALLOCATED(more, ctx, "%s: out of memory for the names of pictures", path));
    to->path = more;
    to->room = room;
  }
  to->path[to->count] = hd__strdup(path);
  HD_TRY(HD_ALLOCATED(to->path[to->count], ctx, "%s: out of memory for the names of pictures", path));
  to->count++;
  return HD_OK;
}

static hd_status list(hd_pictures *to, hd_ctx *ctx, const char *path, int depth) {
  char inside[HD_PATH_BYTES];
  HD_FOLDER_OWNED *folder = opendir(path);
  if (!folder)
    return hd__fail(ctx, HD_E_IO, "%s: cannot read the folder: %s; check its permissions", path, strerror(errno));
  for (struct dirent *entry = NULL; (entry = readdir(folder));) {
    if (entry->d_name[0] == '.')
      continue;
    HD_TRY(hd__file_join(inside, ctx, path, entry->d_name));
    if (hd__file_is_folder(inside) && depth < DEEPEST)
      HD_TRY(list(to, ctx, inside, depth + 1));
    else if (is_picture(inside))
      HD_TRY(add(to, ctx, inside));
  }
  return HD_OK;
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

hd_status hd_pictures_open(hd_pictures **out, hd_ctx *ctx, const char *folder) {
  HD_TRY(HD_NEW(*out, 1, ctx, "%s: out of memory for the names of pictures", folder));
  hd_status status = list(*out, ctx, folder, 0);
  if (status == HD_OK && (*out)->count == 0)
    status = hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected pictures (.png, .jpg, .jpeg) in the folder, found none; name another", folder);
  if ((*out)->count > 0)
    qsort((*out)->path, (size_t)(*out)->count, sizeof *(*out)->path, by_bytes);
  return HD_CREATED(status, out, hd_pictures_close);
}

void hd_pictures_close(hd_pictures *pictures) {
  for (int64_t i = 0; pictures && i < pictures->count; i++)
    hd__free(pictures->path[i]);
  if (pictures)
    hd__free(pictures->path);
  hd__free(pictures);
}

int64_t hd_pictures_count(const hd_pictures *pictures) { return pictures->count; }

const char *hd_pictures_path(const hd_pictures *pictures, int64_t index) {
  return index >= 0 && index < pictures->count ? pictures->path[index] : NULL;
}
