/* Names of masks: see mask_files.h. */
#include "cli/mask_files.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_ROOM = 4096 };

struct mask_files {
  const char *folder;
  void *names; /* a tree of all paths so far */
  char path[PATH_ROOM];
};

static int by_bytes(const void *a, const void *b) { return strcmp(a, b); }

/* Makes the folders of a path, up to its last '/'. */
static int make_folders(hd_ctx *ctx, char *path) {
  for (char *at = path; (at = strchr(at + 1, '/'));) {
    *at = 0;
    const int failed = mkdir(path, 0777) != 0 && errno != EEXIST ? errno : 0;
    *at = '/';
    if (failed)
      return hd_ctx_fail(ctx, HD_E_IO, "--out: cannot make the folders of %s: %s; name another folder", path,
                         strerror(failed));
  }
  return CLI_OK;
}

int mask_files_open(mask_files **out, hd_ctx *ctx, const char *folder) {
  mask_files *files = *out = calloc(1, sizeof *files);
  if (!files)
    return hd_ctx_fail(ctx, HD_E_NOMEM, "out of memory for the names of masks");
  files->folder = folder;
  if (snprintf(files->path, sizeof files->path, "%s/", folder) >= PATH_ROOM)
    return hd_ctx_fail(ctx, HD_E_IO, "--out: expected a shorter path, found %zu characters", strlen(folder));
  return make_folders(ctx, files->path);
}

void mask_files_close(mask_files *files) {
  while (files && files->names) {
    char *name = *(char **)files->names;
    tdelete(name, &files->names, by_bytes);
    free(name);
  }
  free(files);
}

/* Whether the picture is in the folder of the mask. */
static int is_beside(const char *picture, const char *mask) {
  char folder[2][PATH_ROOM];
  const char *path[2] = {picture, mask};
  struct stat info[2];
  for (int i = 0; i < 2; i++) {
    const char *slash = strrchr(path[i], '/');
    const int length = slash ? (int)(slash - path[i]) + 1 : 0;
    snprintf(folder[i], sizeof folder[i], "%.*s.", length, path[i]);
    if (stat(folder[i], &info[i]) != 0)
      return 0;
  }
  return info[0].st_dev == info[1].st_dev && info[0].st_ino == info[1].st_ino;
}

/* Each path once. */
static int keep(mask_files *files, hd_ctx *ctx, const char *of) {
  char *name = strdup(files->path), **found = name ? tsearch(name, &files->names, by_bytes) : NULL;
  if (found && *found == name)
    return CLI_OK;
  free(name);
  if (!found)
    return hd_ctx_fail(ctx, HD_E_NOMEM, "out of memory for the names of masks");
  return hd_ctx_fail(ctx, HD_E_USAGE,
                     "%s: its mask %s is that of another sample of this name; rename one, or give them to separate "
                     "calls",
                     of, files->path);
}

int mask_files_name(const char **path, mask_files *files, hd_ctx *ctx, const char *picture, const char *inside) {
  const char *dot = strrchr(inside, '.'), *slash = strrchr(inside, '/');
  const int stem = (int)(dot && dot > inside && (!slash || dot > slash + 1) ? (size_t)(dot - inside) : strlen(inside));
  *path = files->path;
  if (snprintf(files->path, sizeof files->path, "%s/%.*s.png", files->folder, stem, inside) >= PATH_ROOM)
    return hd_ctx_fail(ctx, HD_E_IO, "%s: the path of its mask is too long; name a shorter folder", inside);
  CLI_TRY(make_folders(ctx, files->path));
  if (picture && is_beside(picture, files->path))
    return hd_ctx_fail(
        ctx, HD_E_USAGE,
        "--out expects another folder than that of %s, where its mask would be taken for a picture; name "
        "another",
        picture);
  return keep(files, ctx, picture ? picture : inside);
}
