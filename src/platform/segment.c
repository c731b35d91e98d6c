/* Mapping segments: see segment.h. */
#include "platform/segment.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "platform/memory_file.h"

enum { HUGE_BYTES = 2 << 20 };

size_t hd__segment_bytes(size_t bytes) {
  size_t page = bytes < HUGE_BYTES ? 4096 : HUGE_BYTES;
  return bytes == 0 ? page : (bytes + page - 1) & ~(page - 1);
}

static hd_status map(hd_segment *out, hd_ctx *ctx, int fd, int64_t offset, size_t bytes, const char *what) {
  *out = (hd_segment){0};
  size_t rounded = hd__segment_bytes(bytes);
  const int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  /* Counted like any allocation, so that the allocation-failure sweep reaches mappings too. */
  void *token = hd__malloc(1);
  void *base = token ? mmap(NULL, rounded, PROT_READ | PROT_WRITE, kind, fd, (off_t)offset) : MAP_FAILED;
  int why = token ? errno : ENOMEM;
  hd__free(token);
  if (base == MAP_FAILED)
    return hd__fail(ctx, HD_E_NOMEM, "expected %zu MiB of memory for %s, found: %s; use a smaller model or batch",
                    rounded >> 20, what, strerror(why));
  if (rounded >= HUGE_BYTES)
    madvise(base, rounded, MADV_HUGEPAGE); /* a refusal costs speed, not results */
  *out = (hd_segment){.base = base, .bytes = rounded};
  return HD_OK;
}

hd_status hd__segment_create(hd_segment *out, hd_ctx *ctx, size_t bytes, const char *what) {
  return map(out, ctx, -1, 0, bytes, what);
}

hd_status hd__segment_map(hd_segment *out, hd_ctx *ctx, int fd, int64_t offset, size_t bytes, const char *what) {
  return map(out, ctx, fd, offset, bytes, what);
}

void hd__segment_count(hd_segment *segment, int fd, int64_t offset, atomic_int *held, const atomic_uint *wanted) {
  segment->fd = fd;
  segment->offset = offset;
  segment->held = held;
  segment->wanted = wanted;
}

/* The whole pages inside a range; *bytes becomes theirs. */
static void *pages_in(void *from, size_t *bytes) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)from + page - 1) & ~(page - 1);
  const uintptr_t end = ((uintptr_t)from + *bytes) & ~(page - 1);
  *bytes = begin < end ? end - begin : 0;
  return (char *)from + (begin - (uintptr_t)from);
}

void hd__segment_guard(void *from, size_t bytes) {
  void *first = pages_in(from, &bytes);
  if (bytes > 0)
    (void)mprotect(first, bytes, PROT_NONE);
}

void hd__segment_discard(void *from, size_t bytes) {
  void *first = pages_in(from, &bytes);
  if (bytes > 0)
    (void)madvise(first, bytes, MADV_DONTNEED);
}

void hd__segment_destroy(hd_segment *segment) {
  if (segment->base)
    munmap(segment->base, segment->bytes);
  if (segment->held && atomic_load(segment->wanted) == 0 && atomic_fetch_sub(segment->held, 1) == 2) {
    hd__memory_file_free(segment->fd, segment->offset, (int64_t)segment->bytes);
    atomic_store(segment->held, 0);
  }
  *segment = (hd_segment){0};
}
