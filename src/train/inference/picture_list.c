/* The pictures in a folder, for predictions: see heddle/predict.h. Folders are told apart by device and inode, and
 * links to folders are followed after all others, in the order of their paths: a folder is listed once, by its own path
 * where it is inside the first one, however many links lead to it. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "data/dataset/name_list.h"
#include "heddle/predict.h"
#include "platform/file.h"

typedef struct identity {
  dev_t device;
  ino_t inode;
  bool taken; /* an entry of the table */
} identity;

struct hd_pictures {
  hd_name_list path;
};

/* What is known of a folder while it is walked through. */
typedef struct walk {
  hd_ctx *ctx;
  hd_name_list *pictures;
  hd_name_list folders, links; /* to go into */
  identity *seen;              /* a hash table of the folders so far, at most half full */
  int64_t count, room;         /* of `seen`; room: a power of 2, or 0 */
  int64_t others;              /* files that are no pictures, and the first of their paths */
  char *other;
} walk;

static void walk_fini(walk *w) {
  hd__name_list_fini(&w->folders);
  hd__name_list_fini(&w->links);
  hd__free(w->seen);
  hd__free(w->other);
}

static hd_status no_memory(hd_ctx *ctx, const char *path) {
  return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for the names of pictures", path);
}

static hd_status add(hd_name_list *to, hd_ctx *ctx, const char *path) {
  return hd__name_list_add(to, path) ? HD_OK : no_memory(ctx, path);
}

static hd_status count_other(walk *w, const char *path) {
  w->others++;
  if (w->other && strcmp(path, w->other) >= 0)
    return HD_OK;
  hd__free(w->other);
  return HD_ALLOCATED(w->other = hd__strdup(path), w->ctx, "%s: out of memory for the names of pictures", path);
}

/* The entry of a folder, or the empty one where it belongs. */
static identity *find(identity *table, int64_t room, const identity *it) {
  static const uint64_t spread = 0x9e3779b97f4a7c15;
  const uint64_t mask = (uint64_t)room - 1;
  uint64_t at = ((uint64_t)it->inode * spread + (uint64_t)it->device) * spread >> 20;
  while (table[at & mask].taken && (table[at & mask].inode != it->inode || table[at & mask].device != it->device))
    at++;
  return &table[at & mask];
}

static hd_status make_larger(walk *w, const char *path) {
  const int64_t room = w->room ? 2 * w->room : 64;
  identity *table = hd__calloc((size_t)room, sizeof *table);
  if (!table)
    return no_memory(w->ctx, path);
  for (int64_t i = 0; i < w->room; i++)
    if (w->seen[i].taken)
      *find(table, room, &w->seen[i]) = w->seen[i];
  hd__free(w->seen);
  w->seen = table;
  w->room = room;
  return HD_OK;
}

/* *is_new: no path to this folder was seen before. */
static hd_status look_at(bool *is_new, walk *w, const char *path) {
  struct stat info;
  if (stat(path, &info) != 0)
    return hd__fail(w->ctx, HD_E_IO, "%s: cannot read the folder: %s; check its permissions", path, strerror(errno));
  const identity it = {info.st_dev, info.st_ino, true};
  if (2 * w->count >= w->room)
    HD_TRY(make_larger(w, path));
  identity *entry = find(w->seen, w->room, &it);
  *is_new = !entry->taken;
  w->count += *is_new;
  *entry = it;
  return HD_OK;
}

static hd_status list(walk *w, const char *path) {
  char inside[HD_PATH_BYTES];
  struct stat info;
  bool is_new;
  HD_TRY(look_at(&is_new, w, path));
  if (!is_new)
    return HD_OK;
  HD_NAME_LIST names = {0};
  HD_TRY(hd__name_list_read(&names, w->ctx, path));
  for (int64_t i = 0; i < names.count; i++) {
    HD_TRY(hd__file_join(inside, w->ctx, path, names.text[i]));
    if (hd__file_is_folder(inside))
      HD_TRY(add(lstat(inside, &info) == 0 && S_ISLNK(info.st_mode) ? &w->links : &w->folders, w->ctx, inside));
    else
      HD_TRY(hd__is_picture(inside) ? add(w->pictures, w->ctx, inside) : count_other(w, inside));
  }
  return HD_OK;
}

/* Folders in each other; then those that links lead to, and folders in these. */
static hd_status walk_through(walk *w, const char *folder) {
  HD_TRY(list(w, folder));
  for (int64_t next = 0;;) {
    while (next < w->folders.count)
      HD_TRY(list(w, w->folders.text[next++]));
    if (w->links.count == 0)
      return HD_OK;
    HD_NAME_LIST links = w->links;
    w->links = (hd_name_list){0};
    hd__name_list_sort(&links);
    for (int64_t i = 0; i < links.count; i++)
      HD_TRY(list(w, links.text[i]));
  }
}

static hd_status tell(const walk *w, const char *folder) {
  if (w->pictures->count == 0)
    return hd__fail(w->ctx, HD_E_FORMAT,
                    "%s: expected pictures (.png, .jpg, .jpeg) in the folder, found none; name another", folder);
  if (w->others == 0)
    return hd__fail(w->ctx, HD_OK, "%s", "");
  return hd__fail(w->ctx, HD_OK, "note: %s: %lld file%s (.png, .jpg, .jpeg) and %s left out: %s%s", folder,
                  (long long)w->others, w->others == 1 ? " is no picture" : "s are no pictures",
                  w->others == 1 ? "is" : "are", w->other, w->others == 1 ? "" : ", ...");
}

hd_status hd_pictures_open(hd_pictures **out, hd_ctx *ctx, const char *folder) {
  HD_TRY(HD_NEW(*out, 1, ctx, "%s: out of memory for the names of pictures", folder));
  walk w = {.ctx = ctx, .pictures = &(*out)->path};
  hd_status status = walk_through(&w, folder);
  HD_THEN(status, tell(&w, folder));
  walk_fini(&w);
  hd__name_list_sort(&(*out)->path);
  return HD_CREATED(status, out, hd_pictures_close);
}

void hd_pictures_close(hd_pictures *pictures) {
  if (pictures)
    hd__name_list_fini(&pictures->path);
  hd__free(pictures);
}

int64_t hd_pictures_count(const hd_pictures *pictures) { return pictures->path.count; }

const char *hd_pictures_path(const hd_pictures *pictures, int64_t index) {
  return index >= 0 && index < pictures->path.count ? pictures->path.text[index] : NULL;
}
