/* Mapping, atomic writing, folders and links. */
#include "platform/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/file_name.h"

static const char *remedy_for(int why) {
  switch (why) {
  case ENOSPC:
  case EDQUOT: return "free some space or choose another folder";
  case EFBIG: return "raise the limit on file sizes or choose another folder";
  case EACCES:
  case EPERM:
  case EROFS: return "choose a path you may use, or change its permissions";
  case EMFILE:
  case ENFILE: return "raise the limit on open files (ulimit -n)";
  case EIO: return "the disk reported an error, check its health (dmesg, smartctl)";
  default: return "check the path";
  }
}

hd_status hd__file_error(hd_ctx *ctx, const char *path, const char *action) {
  const int why = errno;
  return hd__fail(ctx, HD_E_IO, "%s: cannot %s: %s; %s", path, action, strerror(why), remedy_for(why));
}

static const char *kind_text(mode_t mode) {
  return S_ISDIR(mode)                    ? "a folder"
         : S_ISLNK(mode)                  ? "a link"
         : S_ISREG(mode)                  ? "a file"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
         : S_ISFIFO(mode)                 ? "a pipe"
                                          : "something else";
}

static hd_status stat_regular(struct stat *info, hd_ctx *ctx, const char *path, int fd) {
  if (fstat(fd, info) != 0)
    return hd__file_error(ctx, path, "read it");
  if (S_ISREG(info->st_mode))
    return HD_OK;
  return hd__fail(ctx, HD_E_IO, "%s: expected a regular file, found %s; check the path", path,
                  kind_text(info->st_mode));
}

hd_status hd__file_check_regular(hd_ctx *ctx, const char *path, int fd) {
  struct stat info;
  return stat_regular(&info, ctx, path, fd);
}

/* Gets the bytes of an open file of out->length: maps or reads it. */
typedef hd_status take_fn(hd_mapping *out, hd_ctx *ctx, const char *path, int fd);

static hd_status map_all(hd_mapping *out, hd_ctx *ctx, const char *path, int fd) {
  void *bytes = mmap(NULL, out->length, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED)
    return hd__file_error(ctx, path, "map it into memory");
  out->bytes = out->memory = bytes;
  return HD_OK;
}

static hd_status read_all(hd_mapping *out, hd_ctx *ctx, const char *path, int fd) {
  unsigned char *bytes = mmap(NULL, out->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED)
    return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for %zu bytes", path, out->length);
  size_t at = 0;
  ssize_t got = 1;
  while (at < out->length && got > 0) {
    got = TEMP_FAILURE_RETRY(read(fd, bytes + at, out->length - at));
    at += got > 0 ? (size_t)got : 0;
  }
  out->bytes = out->memory = bytes;
  if (at == out->length)
    return HD_OK;
  hd_status status =
      got < 0 ? hd__file_error(ctx, path, "read it")
              : hd__fail(ctx, HD_E_IO,
                         "%s: expected %zu bytes, found %zu: the file was truncated while it was read; start again",
                         path, out->length, at);
  hd__file_unmap(out);
  return status;
}

static bool is_guarded(const struct stat *info) {
  return (info->st_uid == geteuid() || info->st_uid == 0) && !(info->st_mode & (S_IWGRP | S_IWOTH));
}

static hd_status take_open(hd_mapping *out, hd_ctx *ctx, const char *path, int fd, take_fn *take, bool guarded) {
  struct stat info;
  HD_TRY(stat_regular(&info, ctx, path, fd));
  if (guarded && !is_guarded(&info))
    return hd__fail(ctx, HD_E_IO, "%s: expected a file that no other user may write, found one of mode %o; remove it",
                    path, (unsigned)info.st_mode & 07777);
  *out = (hd_mapping){.length = (size_t)info.st_size};
  return info.st_size == 0 ? HD_OK : take(out, ctx, path, fd);
}

/* A FIFO must not block. */
static int open_to_read(const char *path, int more) { return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | more); }

static hd_status take_file(hd_mapping *out, hd_ctx *ctx, const char *path, take_fn *take, bool guarded) {
  *out = (hd_mapping){0};
  int fd = open_to_read(path, guarded ? O_NOFOLLOW : 0);
  if (fd < 0)
    return hd__file_error(ctx, path, "read it");
  hd_status status = take_open(out, ctx, path, fd, take, guarded);
  close(fd);
  return status;
}

hd_status hd__file_open_if_there(FILE **out, hd_ctx *ctx, const char *path) {
  const int fd = open_to_read(path, 0);
  *out = NULL;
  if (fd < 0)
    return errno == ENOENT ? HD_OK : hd__file_error(ctx, path, "read it");
  hd_status status = hd__file_check_regular(ctx, path, fd);
  if (status == HD_OK && !(*out = fdopen(fd, "r")))
    status = hd__file_error(ctx, path, "read it");
  if (status != HD_OK)
    close(fd);
  return status;
}

hd_status hd__file_map(hd_mapping *out, hd_ctx *ctx, const char *path) {
  return take_file(out, ctx, path, map_all, false);
}

hd_status hd__file_map_guarded(hd_mapping *out, hd_ctx *ctx, const char *path) {
  return take_file(out, ctx, path, map_all, true);
}

hd_status hd__file_read(hd_mapping *out, hd_ctx *ctx, const char *path) {
  return take_file(out, ctx, path, read_all, false);
}

hd_status hd__file_read_input(hd_mapping *out, hd_ctx *ctx, const char *name) {
  size_t room = 1 << 16, at = 0;
  ssize_t got = 1;
  unsigned char *bytes = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *out = (hd_mapping){0};
  while (bytes != MAP_FAILED && got > 0) {
    *out = (hd_mapping){bytes, room, bytes};
    got = TEMP_FAILURE_RETRY(read(STDIN_FILENO, bytes + at, room - at));
    at += got > 0 ? (size_t)got : 0;
    if (at == room)
      bytes = mremap(bytes, room, 2 * room, MREMAP_MAYMOVE);
    room *= at == room ? 2 : 1;
  }
  hd_status status = bytes == MAP_FAILED ? hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for its contents", name)
                     : got < 0           ? hd__file_error(ctx, name, "read it")
                                         : HD_OK;
  if (status == HD_OK && at > 0) {
    bytes = mremap(bytes, room, at, MREMAP_MAYMOVE); /* shrinking: the mapping is not moved */
    *out = (hd_mapping){bytes, at, bytes};
  } else {
    hd__file_unmap(out);
  }
  return status;
}

void hd__file_guard(FILE *to) {
  struct stat info;
  if (fstat(fileno(to), &info) == 0)
    (void)!fchmod(fileno(to), info.st_mode & 0755);
}

void hd__file_unmap(hd_mapping *mapping) {
  if (mapping->memory)
    munmap(mapping->memory, mapping->length);
  *mapping = (hd_mapping){0};
}

hd_status hd__file_check(hd_ctx *ctx, FILE *file, const char *path) {
  return fflush(file) == 0 && !ferror(file) ? HD_OK : hd__file_error(ctx, path, "write it");
}

/* 0, or -1 with errno. Some file systems, and objects that are no files, have no sync: that is no failure. */
static int sync_open(int fd) {
  const int failed = TEMP_FAILURE_RETRY(fsync(fd));
  return failed && errno != EINVAL && errno != ENOTSUP && errno != EROFS ? -1 : 0;
}

/* A folder that may be written but not read cannot be synced. */
static hd_status sync_folder(hd_ctx *ctx, const char *folder, const char *path) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return errno == EACCES ? HD_OK : hd__file_error(ctx, path, "open its folder");
  hd_status status = sync_open(fd) == 0 ? HD_OK : hd__file_error(ctx, path, "write its folder to the disk");
  close(fd);
  return status;
}

/* Syncs the folder that holds `path`, so that a new name survives a crash. */
static hd_status sync_parent(hd_ctx *ctx, const char *path) {
  char parent[HD_PATH_BYTES];
  snprintf(parent, sizeof parent, "%s", path);
  char *slash = strrchr(parent, '/');
  if (slash == parent)
    slash[1] = 0;
  else if (slash)
    *slash = 0;
  return sync_folder(ctx, slash ? parent : ".", path);
}

/* ---- Writing under a temporary name ---- */

enum { TRIES = 100 };

/* Makes a file, a folder or a link; below 0, with errno: EEXIST where the name exists, also as a dangling link. For
 * a file the result is its descriptor. */
typedef int make_fn(const char *name, const char *target);

static int make_file(const char *name, const char *target) {
  return open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

static int make_one_folder(const char *name, const char *target) { return mkdir(name, 0777); }

static int make_link(const char *name, const char *target) { return symlink(target, name); }

/* What is made, and what that is called in messages. */
typedef struct made_thing {
  make_fn *make;
  const char *target, *action;
} made_thing;

/* Makes a file, folder or link beside `path`, under a new temporary name. */
static hd_status make_beside(int *made, char name[HD_PATH_BYTES], hd_ctx *ctx, const char *path, made_thing what) {
  *made = -1;
  errno = EEXIST;
  for (int i = 0; i < TRIES && *made < 0 && errno == EEXIST; i++) {
    HD_TRY(hd__temporary_name(name, ctx, path, HD_TMP_MARK));
    *made = what.make(name, what.target);
  }
  return *made < 0 ? hd__file_error(ctx, path, what.action) : HD_OK;
}

/* Lets `write` fill an open file, syncs and closes it. */
static hd_status fill(int fd, hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg) {
  FILE *file = fdopen(fd, "wb");
  if (!file) {
    hd_status status = hd__file_error(ctx, path, "write it");
    close(fd);
    return status;
  }
  hd_status status = write(file, ctx, arg);
  HD_THEN(status, hd__file_check(ctx, file, path));
  if (status == HD_OK && sync_open(fd) != 0)
    status = hd__file_error(ctx, path, "write it to the disk");
  if (fclose(file) != 0 && status == HD_OK)
    status = hd__file_error(ctx, path, "write it");
  return status;
}

/* Locks a new file, which is empty still, until the descriptor that is returned is closed; -1: it could not. */
static int lock_new(int fd) {
  const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  const int lock = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (lock >= 0)
    (void)fcntl(lock, F_OFD_SETLK, &whole);
  return lock;
}

/* What a new file gets, and whether it is locked until it has its name. */
typedef struct content {
  hd_write_fn *write;
  void *arg;
  bool locks;
} content;

static hd_status write_beside(hd_ctx *ctx, const char *path, content what) {
  char temporary[HD_PATH_BYTES];
  struct stat there;
  int fd;
  if (lstat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISLNK(there.st_mode) && !S_ISDIR(there.st_mode))
    return hd__fail(ctx, HD_E_IO, "%s: expected a file or nothing in its place, found %s; move that away", path,
                    kind_text(there.st_mode));
  HD_TRY(make_beside(&fd, temporary, ctx, path, (made_thing){make_file, NULL, "create it"}));
  const int lock = what.locks ? lock_new(fd) : -1;
  hd_status status = fill(fd, ctx, path, what.write, what.arg);
  if (status == HD_OK && rename(temporary, path) != 0)
    status = hd__file_error(ctx, path, "give it its name");
  if (lock >= 0)
    close(lock);
  if (status == HD_OK)
    return sync_parent(ctx, path);
  unlink(temporary);
  return status;
}

hd_status hd__file_write(hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg) {
  return write_beside(ctx, path, (content){write, arg, false});
}

hd_status hd__file_write_cache(hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg) {
  hd__file_remove_given_up(path);
  return write_beside(ctx, path, (content){write, arg, true});
}

/* ---- Paths that users name ---- */

/* The descriptor of standard output or error, if one of them is open on this file; -1 otherwise. */
static int standard_stream(const struct stat *file) {
  struct stat open_on;
  for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
    if (fstat(fd, &open_on) == 0 && open_on.st_dev == file->st_dev && open_on.st_ino == file->st_ino)
      return fd;
  return -1;
}

static bool is_stream(const struct stat *file) {
  return !S_ISDIR(file->st_mode) && (!S_ISREG(file->st_mode) || standard_stream(file) >= 0);
}

bool hd__file_is_stream(const char *path) {
  struct stat file;
  return stat(path, &file) == 0 && is_stream(&file);
}

/* The target of a link. The link is opened first: the system refuses links of other users in shared folders. */
static hd_status follow(char **out, hd_ctx *ctx, const char *path) {
  struct stat opened, named;
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0)
    return hd__file_error(ctx, path, "write to the file that the link names");
  *out = realpath(path, NULL);
  const bool same = *out && fstat(fd, &opened) == 0 && lstat(*out, &named) == 0 && opened.st_dev == named.st_dev &&
                    opened.st_ino == named.st_ino;
  close(fd);
  if (same)
    return HD_OK;
  free(*out);
  *out = NULL;
  return hd__fail(ctx, HD_E_IO, "%s: the link changed while it was opened; name the file itself", path);
}

hd_status hd__file_write_named(hd_ctx *ctx, const char *path, hd_write_fn *write, void *arg) {
  struct stat file;
  char *real = NULL;
  if (stat(path, &file) == 0 && is_stream(&file)) {
    const int standard = standard_stream(&file);
    if (standard >= 0)
      fflush(standard == STDOUT_FILENO ? stdout : stderr); /* what was printed comes first */
    const int fd = standard < 0 ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY) : fcntl(standard, F_DUPFD_CLOEXEC, 3);
    return fd < 0 ? hd__file_error(ctx, path, "write it") : fill(fd, ctx, path, write, arg);
  }
  if (lstat(path, &file) != 0 || !S_ISLNK(file.st_mode))
    return hd__file_write(ctx, path, write, arg);
  HD_TRY(follow(&real, ctx, path));
  hd_status status = hd__file_write(ctx, real, write, arg);
  free(real);
  return status;
}

hd_status hd__file_make_new_folder(bool *made, hd_ctx *ctx, const char *path) {
  *made = mkdir(path, 0777 & ~S_IWOTH) == 0; /* never writable by all users, whatever the umask */
  if (!*made && errno != EEXIST)
    return hd__file_error(ctx, path, "create the folder");
  return *made ? sync_parent(ctx, path) : HD_OK;
}

hd_status hd__file_make_folder(hd_ctx *ctx, const char *path) {
  char part[HD_PATH_BYTES];
  bool made;
  HD_TRY(hd__file_join(part, ctx, path, ""));
  for (char *at = part + 1; *at; at++) {
    if (*at != '/')
      continue;
    *at = 0;
    HD_TRY(hd__file_make_new_folder(&made, ctx, part));
    *at = '/';
  }
  if (!hd__file_is_folder(path)) {
    errno = ENOTDIR;
    return hd__file_error(ctx, path, "use it as a folder");
  }
  return HD_OK;
}

hd_status hd__file_in_shared(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *folder, const char *name) {
  char with_user[HD_NAME_MAX + 1];
  struct stat there;
  HD_TRY(hd__file_join(out, ctx, folder, name));
  if (lstat(out, &there) != 0 || there.st_uid == geteuid() || there.st_uid == 0)
    return HD_OK;
  snprintf(with_user, sizeof with_user, "%s-%lu", name, (unsigned long)geteuid());
  return hd__file_join(out, ctx, folder, with_user);
}

/* Removes a file, a link or a folder of such. */
static void remove_any(const char *path) {
  if (unlink(path) != 0)
    hd__file_remove_folder(path);
}

hd_status hd__file_folder_begin(char temporary[HD_PATH_BYTES], hd_ctx *ctx, const char *path) {
  int made;
  return make_beside(&made, temporary, ctx, path, (made_thing){make_one_folder, NULL, "create the folder"});
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

/* Renames a folder over another one, on a file system that cannot exchange names. For a moment the name does not exist;
 * a folder left under an old-mark name is restored at the next start. */
static hd_status take_place(hd_ctx *ctx, const char *temporary, const char *path) {
  char old[HD_PATH_BYTES];
  HD_TRY(hd__temporary_name(old, ctx, path, HD_OLD_MARK));
  const bool replaces = rename(path, old) == 0;
  if (rename(temporary, path) != 0) {
    hd_status status = hd__file_error(ctx, path, "give the folder its name");
    if (replaces)
      rename(old, path);
    return status;
  }
  HD_TRY(sync_parent(ctx, path));
  if (replaces)
    remove_any(old);
  return HD_OK;
}

hd_status hd__file_folder_commit(hd_ctx *ctx, const char *temporary, const char *path) {
  HD_TRY(hd__file_check_place(ctx, path, false));
  HD_TRY(sync_folder(ctx, temporary, path));
  if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_EXCHANGE) != 0)
    return take_place(ctx, temporary, path);
  HD_TRY(sync_parent(ctx, path)); /* the name existed at all times */
  remove_any(temporary);
  return HD_OK;
}

hd_status hd__file_link(hd_ctx *ctx, const char *target, const char *path) {
  char temporary[HD_PATH_BYTES];
  int made;
  HD_TRY(hd__file_check_place(ctx, path, true));
  HD_TRY(make_beside(&made, temporary, ctx, path, (made_thing){make_link, target, "create the link"}));
  if (rename(temporary, path) == 0)
    return sync_parent(ctx, path);
  hd_status status = hd__file_error(ctx, path, "give the link its name");
  unlink(temporary);
  return status;
}

int hd__file_reserve(int fd, int64_t bytes) {
  int error;
  do
    error = posix_fallocate(fd, 0, (off_t)bytes);
  while (error == EINTR);
  return error;
}

int hd__file_exists(const char *path) { return access(path, F_OK) == 0; }

int hd__file_is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}
