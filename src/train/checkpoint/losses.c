/* The files of losses and of their divisors: see losses.h. */
#include "platform/file.h"
#include "train/checkpoint/losses.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char losses_name[] = "losses.bin", divisors_name[] = "divisors.bin";

enum { STEPS_MORE = 8192 }; /* room grows by multiples of this */

static hd_status map(hd_mapping *out, hd_ctx *ctx, const char *run, const char *name) {
  char path[HD_PATH_BYTES];
  *out = (hd_mapping){0};
  HD_TRY(hd__file_join(path, ctx, run, name));
  return hd__file_exists(path) ? hd__file_map(out, ctx, path) : HD_OK;
}

hd_status hd__losses_map(hd_mapping *out, hd_ctx *ctx, const char *run) { return map(out, ctx, run, losses_name); }

hd_status hd__divisors_map(hd_mapping *out, hd_ctx *ctx, const char *run) { return map(out, ctx, run, divisors_name); }

/* The first part of a resumed run's file. */
typedef struct beginning {
  const char *name;
  hd_mapping earlier;
  int64_t steps;
} beginning;

static hd_status write_beginning(FILE *to, hd_ctx *ctx, void *arg) {
  const beginning *b = arg;
  const int64_t there = (int64_t)(b->earlier.length / sizeof(double)), copied = there < b->steps ? there : b->steps;
  const double unknown = NAN;
  if (copied > 0)
    fwrite(b->earlier.bytes, sizeof(double), (size_t)copied, to);
  for (int64_t i = copied; i < b->steps; i++)
    fwrite(&unknown, sizeof unknown, 1, to);
  return hd__file_check(ctx, to, b->name);
}

/* The file of a resumed run. */
static hd_status take_over(hd_ctx *ctx, const char *path, const char *from, const char *name, int64_t steps) {
  beginning b = {.name = name, .steps = steps};
  HD_TRY(map(&b.earlier, ctx, from, name));
  const hd_status status = hd__file_write(ctx, path, write_beginning, &b);
  hd__file_unmap(&b.earlier);
  return status;
}

/* Opens the file at out->path. */
static hd_status open_file(hd_losses *out, hd_ctx *ctx, const char *from, const char *name, int64_t steps) {
  if (steps > 0)
    HD_TRY(take_over(ctx, out->path, from, name, steps));
  else
    unlink(out->path); /* of a run that was killed before its first checkpoint */
  out->fd = open(out->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (steps > 0 ? 0 : O_CREAT | O_EXCL), 0666);
  if (out->fd < 0)
    return hd__file_error(ctx, out->path, "write it");
  return hd__losses_reserve(out, ctx, steps + 1);
}

hd_status hd__losses_open(hd_losses *out, hd_ctx *ctx, const char *run, const char *from, int64_t steps) {
  *out = (hd_losses){.fd = -1};
  HD_TRY(hd__file_join(out->path, ctx, run, losses_name));
  return open_file(out, ctx, from, losses_name, steps);
}

hd_status hd__divisors_open(hd_losses *out, hd_ctx *ctx, const char *run, const char *from, int64_t steps, bool kept) {
  *out = (hd_losses){.fd = -1};
  HD_TRY(hd__file_join(out->path, ctx, run, divisors_name));
  if (kept)
    return open_file(out, ctx, from, divisors_name, steps);
  if (steps == 0)
    unlink(out->path);
  return HD_OK;
}

hd_status hd__losses_reserve(hd_losses *losses, hd_ctx *ctx, int64_t steps) {
  if (losses->fd < 0 || steps <= losses->room)
    return HD_OK;
  const int64_t room = (steps / STEPS_MORE + 1) * STEPS_MORE;
  const int failed = hd__file_reserve(losses->fd, room * (int64_t)sizeof(double));
  if (failed)
    return hd__fail(ctx, HD_E_IO, "%s: no room for the losses of %lld steps: %s; free some space, or use --out",
                    losses->path, (long long)room, strerror(failed));
  void *place = mmap(NULL, (size_t)room * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED, losses->fd, 0);
  if (place == MAP_FAILED)
    return hd__fail(ctx, HD_E_SYSTEM, "%s: cannot map it: %s; use --out on another file system", losses->path,
                    strerror(errno));
  if (losses->sum)
    munmap(losses->sum, (size_t)losses->room * sizeof(double));
  losses->sum = place;
  losses->room = room;
  return HD_OK;
}

void hd__losses_close(hd_losses *losses, int64_t steps) {
  if (losses->sum) {
    munmap(losses->sum, (size_t)losses->room * sizeof(double));
    if (ftruncate(losses->fd, (off_t)(steps * (int64_t)sizeof(double))) != 0) {
      /* the file stays longer, as after a kill */
    }
  }
  if (losses->fd >= 0)
    close(losses->fd);
  *losses = (hd_losses){.fd = -1};
}

/* Whether each of the steps has a loss. */
static bool has_all(const hd_mapping *file, int64_t steps) {
  double sum = 0;
  if ((int64_t)(file->length / sizeof sum) < steps)
    return false;
  for (int64_t i = 0; i < steps && !isnan(sum); i++)
    memcpy(&sum, file->bytes + i * (int64_t)sizeof sum, sizeof sum);
  return !isnan(sum);
}

static hd_status sync_losses(hd_ctx *ctx, const char *path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe, which is refused when it is read */
  const int failed = fd < 0 ? errno : fdatasync(fd) != 0 && errno != EINVAL ? errno : 0;
  if (fd >= 0)
    close(fd);
  return failed && failed != ENOENT
             ? hd__fail(ctx, HD_E_IO, "%s: cannot write it to the disk: %s", path, strerror(failed))
             : HD_OK;
}

hd_status hd__losses_digest(char hex[HD_SHA256_HEX_BYTES], hd_ctx *ctx, const char *run, int64_t steps) {
  HD_MAPPED file = {0};
  char path[HD_PATH_BYTES];
  hex[0] = 0;
  HD_TRY(hd__file_join(path, ctx, run, losses_name));
  HD_TRY(sync_losses(ctx, path));
  HD_TRY(hd__losses_map(&file, ctx, run));
  if (!has_all(&file, steps))
    return HD_OK;
  hd_sha256 *sha = hd__sha256_create();
  HD_TRY(HD_ALLOCATED(sha, ctx, "out of memory for the digest of the losses"));
  hd__sha256_update(sha, file.bytes, (size_t)steps * sizeof(double));
  hd__sha256_finish(sha, hex);
  return HD_OK;
}
