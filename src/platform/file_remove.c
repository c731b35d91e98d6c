/* Removing folders, and what killed processes left under temporary names: see file.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file_name.h"

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

/* A folder's entries; NULL for anything else, a link too. */
static DIR *list(const char *path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  if (!folder && fd >= 0)
    close(fd);
  return folder;
}

void hd__file_remove_folder(const char *path) {
  DIR *folder = list(path);
  if (!folder)
    return;
  struct dirent *entry;
  while ((entry = readdir(folder)))
    if (!is_dots(entry->d_name))
      unlinkat(dirfd(folder), entry->d_name, 0);
  closedir(folder);
  rmdir(path);
}

void hd__file_retire_folder(const char *path) {
  char temporary[HD_PATH_BYTES];
  if (hd__temporary_name(temporary, NULL, path, HD_TMP_MARK) == HD_OK && rename(path, temporary) == 0)
    hd__file_remove_folder(temporary);
}

/* ---- Leftovers of killed processes ---- */

static bool is_plain(int folder, const char *name) {
  struct stat info;
  return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
}

bool hd__file_holds_only(const char *path, hd_writes_fn *writes) {
  char name[HD_NAME_MAX + 1];
  HD_FOLDER_OWNED *folder = list(path);
  bool holds = folder != NULL;
  struct dirent *entry;
  while (holds && (entry = readdir(folder))) {
    const char *found = entry->d_name;
    if (!is_dots(found))
      holds = is_plain(dirfd(folder), found) &&
              (writes(found) || (hd__name_behind(name, found, HD_TMP_MARK) && writes(name)));
  }
  return holds;
}

/* Links that heddle writes point to a name of the same folder. */
static bool leads_beside(const char *path) {
  char target[HD_NAME_MAX + 1];
  const ssize_t length = readlink(path, target, sizeof target);
  return length > 0 && (size_t)length < sizeof target && !memchr(target, '/', (size_t)length);
}

static void remove_leftover(const char *path, hd_writes_fn *writes) {
  struct stat info;
  if (lstat(path, &info) != 0 || info.st_uid != geteuid())
    return;
  if (S_ISDIR(info.st_mode) && hd__file_holds_only(path, writes))
    hd__file_remove_folder(path);
  else if (S_ISREG(info.st_mode) || (S_ISLNK(info.st_mode) && leads_beside(path)))
    unlink(path);
}

static bool is_later(const struct stat *a, const struct stat *b) {
  const struct timespec x = a->st_ctim, y = b->st_ctim;
  return x.tv_sec != y.tv_sec ? x.tv_sec > y.tv_sec : x.tv_nsec > y.tv_nsec;
}

/* The replaced object of a name that was renamed last; "": this user has none. */
static void find_newest(char newest[HD_PATH_BYTES], const char *folder, const char *name) {
  char of[HD_NAME_MAX + 1], path[HD_PATH_BYTES];
  struct stat info, last = {0};
  HD_FOLDER_OWNED *all = opendir(folder);
  struct dirent *entry;
  *newest = 0;
  while (all && (entry = readdir(all))) {
    if (!hd__name_behind(of, entry->d_name, HD_OLD_MARK) || strcmp(of, name) != 0 ||
        hd__file_join(path, NULL, folder, entry->d_name) != HD_OK || lstat(path, &info) != 0 ||
        info.st_uid != geteuid() || (*newest && !is_later(&info, &last)))
      continue;
    memcpy(newest, path, sizeof path);
    last = info;
  }
}

/* Restores a replaced object whose replacement was never renamed. False: it is missing still, and what was replaced may
 * be the only copy. */
static bool put_back(const char *folder, const char *name) {
  char final[HD_PATH_BYTES], newest[HD_PATH_BYTES];
  struct stat info;
  if (hd__file_join(final, NULL, folder, name) != HD_OK)
    return false;
  if (lstat(final, &info) == 0)
    return true;
  if (errno != ENOENT)
    return false;
  find_newest(newest, folder, name);
  return *newest && rename(newest, final) == 0;
}

static void look_after(const char *folder, const char *entry, hd_writes_fn *writes) {
  char name[HD_NAME_MAX + 1], path[HD_PATH_BYTES];
  const bool is_old = hd__name_behind(name, entry, HD_OLD_MARK) != NULL;
  if ((!is_old && !hd__name_behind(name, entry, HD_TMP_MARK)) || !writes(name) ||
      hd__file_join(path, NULL, folder, entry) != HD_OK)
    return;
  if (!is_old || put_back(folder, name))
    remove_leftover(path, writes);
}

void hd__file_remove_leftovers(const char *path, hd_writes_fn *writes) {
  HD_FOLDER_OWNED *folder = opendir(path);
  struct dirent *entry;
  while (folder && (entry = readdir(folder)))
    look_after(path, entry->d_name, writes);
}

/* Whether no process writes the file: the writer of a cache locks it before its first byte. */
static bool is_given_up(const char *path) {
  const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct stat info;
  if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() || info.st_size == 0)
    return false;
  const int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  const bool got = fd >= 0 && fcntl(fd, F_OFD_SETLK, &whole) == 0;
  if (fd >= 0)
    close(fd);
  return got;
}

void hd__file_remove_given_up(const char *path) {
  char folder[HD_PATH_BYTES], temporary[HD_PATH_BYTES], name[HD_NAME_MAX + 1];
  const char *slash = strrchr(path, '/'), *wanted = slash ? slash + 1 : path;
  if (snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".") >=
      (int)sizeof folder)
    return;
  HD_FOLDER_OWNED *all = opendir(folder);
  struct dirent *entry;
  while (all && (entry = readdir(all)))
    if (hd__name_behind(name, entry->d_name, HD_TMP_MARK) && !strcmp(name, wanted) &&
        hd__file_join(temporary, NULL, folder, entry->d_name) == HD_OK && is_given_up(temporary))
      unlink(temporary);
}
