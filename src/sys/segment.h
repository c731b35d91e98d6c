/* Memory that outlives a step and that all lanes, and where it is a part of a memory file all ranks, of a host share:
 * mapped, zeroed, 2 MiB pages where the system gives them, and without a name in any file system, so that nothing is
 * left behind whatever happens to the processes. */
#ifndef HD_SYS_SEGMENT_H
#define HD_SYS_SEGMENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct hd_segment {
  void *base;
  size_t bytes;
  atomic_int *held;          /* how many processes hold this part of a memory file, and 1; NULL: nobody counts */
  int fd;                    /* with it: of the file, open as long as the segment is there, */
  int64_t offset;            /* and where the part is; */
  const atomic_uint *wanted; /* while it is not 0, what the part holds is still wanted */
} hd_segment;

/* What a segment for `bytes` really maps: whole pages, small or large. */
size_t hd__segment_bytes(size_t bytes);

/* `what` names the purpose in the error message. */
hd_status hd__segment_create(hd_segment *out, hd_ctx *ctx, size_t bytes, const char *what);
/* Maps `bytes` of a memory file from `offset` on, a multiple of HD_SEGMENT_ALIGN; they are inside the file. */
enum { HD_SEGMENT_ALIGN = 2 << 20 };
hd_status hd__segment_map(hd_segment *out, hd_ctx *ctx, int fd, int64_t offset, size_t bytes, const char *what);

/* The last process that destroys it gives its pages back to the system, so that they read as zeros, and then makes
 * *held 0; while *wanted is not 0 nobody does, and the memory stays for who comes after. */
void hd__segment_count(hd_segment *segment, int fd, int64_t offset, atomic_int *held, const atomic_uint *wanted);

void hd__segment_destroy(hd_segment *segment);

#endif
