/* Mapping, atomic writing, folders and links. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sys/clock.h"

static const char *remedy_for(int why) {
  switch (why) {
  case ENOSPC:
  case EDQUOT: return "free some space or choose another folder";
  case EFBIG: return "raise the limit on file sizes or choose another folder";
  case EACCES:
  case EPERM:
  case EROFS: return "choose a path you may use, or change its permissions";
  case EMFILE:
  case ENFILE: return "raise the limit on open files";
  case EIO: return "look after the disk";
  default: return "check the path";
  }
}

static hd_status io_error(hd_ctx *ctx, const char *path, const char *expected) {
  int why = errno;
  return hd__fail(ctx, HD_E_IO, "%s: expected %s, found: %s; %s", path, expected, strerror(why), remedy_for(why));
}

static const char *kind_text(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISLNK(mode) ? "a link" : S_ISREG(mode) ? "a file" : "something else";
}

static hd_status map_open(hd_mapping *out, hd_ctx *ctx, const char *path, int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0)
    return io_error(ctx, path, "a readable file");
  if (!S_ISREG(info.st_mode))
    return hd__fail(ctx, HD_E_IO, "%s: expected a regular file, found %s; check the path", path,
                    kind_text(info.st_mode));
  *out = (hd_mapping){NULL, (size_t)info.st_size};
  if (info.st_size == 0)
    return HD_OK;
  void *bytes = mmap(NULL, out->length, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED)
    return io_error(ctx, path, "a file that can be mapped");
  out->bytes = bytes;
  return HD_OK;
}

hd_status hd__file_map(hd_mapping *out, hd_ctx *ctx, const char *path) {
  *out = (hd_mapping){0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
  if (fd < 0)
    return io_error(ctx, path, "a readable file");
  hd_status status = map_open(out, ctx, path, fd);
  close(fd);
  return status;
}

void hd__file_unmap(hd_mapping *mapping) {
  if (mapping->bytes)
    munmap((void *)(size_t)mapping->bytes, mapping->length);
  *mapping = (hd_mapping){0};
}

hd_status hd__file_check(hd_ctx *ctx, FILE *file, const char *path) {
  return fflush(file) == 0 && !ferror(file) ? HD_OK : io_error(ctx, path, "to write it");
}

/* Syncs the folder that holds `path`, so that a rename survives a crash. */
static void sync_parent(const char *path) {
  char parent[HD_PATH_BYTES];
  snprintf(parent, sizeof parent, "%s", path);
  char *slash = strrchr(parent, '/');
  if (slash == parent)
    slash[1] = 0;
  else if (slash)
    *slash = 0;
  int fd = open(slash ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
}

/* A name beside `path` that no one else uses: the thread's number is in it, which no other thread of any process has. */
static hd_status temporary_name(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *path) {
  const char *slash = strrchr(path, '/');
  int folder = slash ? (int)(slash - path) + 1 : 0;
  int n = snprintf(out, HD_PATH_BYTES, "%.*s.%s.tmp-%ld", folder, path, path + folder, (long)syscall(SYS_gettid));
  return n < HD_PATH_BYTES
             ? HD_OK
             : hd__fail(ctx, HD_E_USAGE,
                        "%.200s: expected a path below %d bytes, found a longer one; choose another folder", path,
                        HD_PATH_BYTES);
}

hd_status hd__file_write(hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg) {
  char temporary[HD_PATH_BYTES];
  HD_TRY(temporary_name(temporary, ctx, path));
  FILE *file = fopen(temporary, "wbe");
  if (!file)
    return io_error(ctx, path, "to create it");
  hd_status status = write(file, ctx, arg);
  if (status == HD_OK)
    status = hd__file_check(ctx, file, path);
  if (status == HD_OK && fsync(fileno(file)) != 0)
    status = io_error(ctx, path, "to write it to the disk");
  if (fclose(file) != 0 && status == HD_OK)
    status = io_error(ctx, path, "to write it");
  if (status == HD_OK && rename(temporary, path) != 0)
    status = io_error(ctx, path, "to give it its name");
  if (status == HD_OK)
    sync_parent(path);
  else
    unlink(temporary);
  return status;
}

hd_status hd__file_make_folder(hd_ctx *ctx, const char *path) {
  char part[HD_PATH_BYTES];
  HD_TRY(hd__file_join(part, ctx, path, ""));
  for (char *at = part + 1; *at; at++) {
    if (*at != '/')
      continue;
    *at = 0;
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
      return io_error(ctx, part, "to create the folder");
    *at = '/';
  }
  if (!hd__file_is_folder(path)) {
    errno = ENOTDIR;
    return io_error(ctx, path, "a folder");
  }
  return HD_OK;
}

hd_status hd__file_join(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *folder, const char *name) {
  int n = snprintf(out, HD_PATH_BYTES, "%s/%s", folder, name);
  return n < HD_PATH_BYTES
             ? HD_OK
             : hd__fail(ctx, HD_E_USAGE,
                        "%.200s: expected a path below %d bytes, found a longer one; choose another folder", folder,
                        HD_PATH_BYTES);
}

/* A file, a link or a folder of such. */
static void remove_any(const char *path) {
  if (unlink(path) != 0)
    hd__file_remove_folder(path);
}

hd_status hd__file_folder_begin(char temporary[HD_PATH_BYTES], hd_ctx *ctx, const char *path) {
  HD_TRY(temporary_name(temporary, ctx, path));
  remove_any(temporary);
  return mkdir(temporary, 0777) == 0 ? HD_OK : io_error(ctx, path, "to create the folder");
}

hd_status hd__file_check_place(hd_ctx *ctx, const char *path, bool for_link) {
  struct stat there;
  if (lstat(path, &there) != 0 || S_ISLNK(there.st_mode) || (!for_link && S_ISDIR(there.st_mode)))
    return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "%s: expected a %s or nothing in its place, found %s; move that away, or choose another "
                  "folder for the run",
                  path, for_link ? "link" : "folder", kind_text(there.st_mode));
}

hd_status hd__file_folder_commit(hd_ctx *ctx, const char *temporary, const char *path) {
  char old[HD_PATH_BYTES + 8];
  HD_TRY(hd__file_check_place(ctx, path, false));
  snprintf(old, sizeof old, "%s.old", temporary);
  int fd = open(temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) == 0) { /* at no time is there none */
    sync_parent(path);
    remove_any(temporary);
    return HD_OK;
  }
  int replaces = rename(path, old) == 0; /* there is none, or the file system cannot exchange */
  if (rename(temporary, path) != 0) {
    hd_status status = io_error(ctx, path, "to give the folder its name");
    if (replaces)
      rename(old, path);
    return status;
  }
  sync_parent(path);
  if (replaces)
    remove_any(old);
  return HD_OK;
}

void hd__file_remove_folder(const char *path) {
  DIR *folder = opendir(path);
  if (!folder)
    return;
  struct dirent *entry;
  while ((entry = readdir(folder)))
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
      unlinkat(dirfd(folder), entry->d_name, 0);
  closedir(folder);
  rmdir(path);
}

void hd__file_remove_leftovers(const char *folder) {
  char path[HD_PATH_BYTES];
  DIR *list = opendir(folder);
  struct dirent *entry;
  while (list && (entry = readdir(list))) {
    if (entry->d_name[0] != '.' || !strstr(entry->d_name, ".tmp-") ||
        hd__file_join(path, NULL, folder, entry->d_name) != HD_OK)
      continue;
    remove_any(path);
  }
  if (list)
    closedir(list);
}

hd_status hd__file_lock_folder(int *lock, hd_ctx *ctx, const char *path, double wait_s) {
  const struct timespec pause = {.tv_nsec = 20000000};
  const double end_s = hd__clock_s() + wait_s;
  int busy = 1;
  *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*lock < 0)
    return io_error(ctx, path, "a folder to write in");
  while (busy) {
    if (syscall(SYS_flock, *lock, LOCK_EX | LOCK_NB) == 0) /* flock is declared in a header of this one's name */
      return HD_OK;
    busy = errno == EWOULDBLOCK;
    if (!busy || hd__clock_s() >= end_s)
      break;
    nanosleep(&pause, NULL);
  }
  close(*lock);
  *lock = -1;
  return busy ? hd__fail(ctx, HD_E_IO,
                         "%s: expected a folder that no one writes, found another heddle at work in it; wait for it "
                         "or choose another --out",
                         path)
              : HD_OK;
}

hd_status hd__file_link(hd_ctx *ctx, const char *target, const char *path) {
  char temporary[HD_PATH_BYTES];
  HD_TRY(hd__file_check_place(ctx, path, true));
  HD_TRY(temporary_name(temporary, ctx, path));
  unlink(temporary);
  if (symlink(target, temporary) != 0)
    return io_error(ctx, path, "to create the link");
  if (rename(temporary, path) == 0)
    return HD_OK;
  hd_status status = io_error(ctx, path, "to give the link its name");
  unlink(temporary);
  return status;
}

int hd__file_exists(const char *path) { return access(path, F_OK) == 0; }

int hd__file_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}
