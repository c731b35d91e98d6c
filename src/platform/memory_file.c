/* Memory files as memfd and its seals: see memory_file.h. */
#include "platform/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/file.h"

/* The last seal prevents further seals. */
static int seals(bool may_grow) { return F_SEAL_SHRINK | F_SEAL_SEAL | (may_grow ? 0 : F_SEAL_GROW); }

int hd__memory_file(const char *name, int64_t bytes, bool may_grow) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -1;
  const int error = !may_grow ? hd__file_reserve(fd, bytes) : ftruncate(fd, (off_t)bytes) ? errno : 0;
  if (!error && fcntl(fd, F_ADD_SEALS, seals(may_grow)) == 0)
    return fd;
  const int why = error ? error : errno;
  close(fd);
  errno = why;
  return -1;
}

bool hd__memory_file_is_fixed(int fd, bool may_grow) {
  const int found = fcntl(fd, F_GET_SEALS), wanted = seals(may_grow);
  return found >= 0 && (found & wanted) == wanted;
}

void hd__memory_file_free(int fd, int64_t offset, int64_t bytes) {
  fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
}
