/* Segments: mapped memory that outlives a step, shared by all threads and, if it is in a memory file, by all ranks
 * of a host. Zeroed, with 2 MiB pages where the system gives them, and without a name in any file system, so that
 * nothing is left behind when processes are killed. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/tools_api.h"
#include "base/status.h"

typedef struct hd_segment {
  void *base;
  size_t bytes;
  atomic_int *held;          /* 1 + the number of processes that hold this range of a memory file; NULL: not counted */
  int fd;                    /* with `held`: of the file, open as long as the segment exists */
  int64_t offset;            /* with `held`: of the range */
  const atomic_uint *wanted; /* while it is not 0, the content is kept */
} hd_segment;

/* The size of the mapping for `bytes`: whole pages, small or large. */
size_t hd__segment_bytes(size_t bytes);

/* `what` names the purpose in the error message. */
HD_TOOLS_API hd_status hd__segment_create(hd_segment *out, hd_ctx *ctx, size_t bytes, const char *what);
/* Maps `bytes` of a memory file from `offset` on, a multiple of HD_SEGMENT_ALIGN; they are inside the file. */
enum { HD_SEGMENT_ALIGN = 2 << 20 };
hd_status hd__segment_map(hd_segment *out, hd_ctx *ctx, int fd, int64_t offset, size_t bytes, const char *what);

/* Makes a segment counted: the last process that destroys it frees its pages, so that they read as zeros, and then
 * sets *held to 0. While *wanted is not 0 the pages are kept, for a process that reads them later. */
void hd__segment_count(hd_segment *segment, int fd, int64_t offset, atomic_int *held, const atomic_uint *wanted);

/* Makes the pages inside a range of a segment inaccessible, for tests: an access raises SIGSEGV. If the system refuses,
 * they stay as they are. */
void hd__segment_guard(void *from, size_t bytes);

/* Gives the pages inside a range of a private segment back to the system; they read as zeros. */
void hd__segment_discard(void *from, size_t bytes);

HD_TOOLS_API void hd__segment_destroy(hd_segment *segment);
