/* Decoding in blocks; see data_statistics.h. */
#include "data/loader/data_statistics.h"

#include "base/alloc.h"
#include "data/loader/skipped_samples.h"

enum { MOST_BLOCK = 256, BLOCK_BYTES = 1 << 26 };

typedef struct slot {
  int size[2];
  hd_status status;
} slot;

/* Samples that fit BLOCK_BYTES, at least one. */
static int64_t block_of(const hd_dataset *split) {
  const int64_t bytes = hd__dataset_most_bytes(split), fit = bytes > 0 ? BLOCK_BYTES / bytes : MOST_BLOCK;
  const int64_t most = split->count < MOST_BLOCK ? split->count : MOST_BLOCK;
  return fit < 1 ? 1 : fit < most ? fit : most;
}

/* Decodes a block; a failed sample is read again for its message. */
static hd_status fill(uint8_t *elems, slot *at, hd_ctx *ctx, const hd_dataset *split, int64_t first, int64_t count) {
  const int64_t bytes = hd__dataset_most_bytes(split);
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t i = 0; i < count; i++) {
    hd_ctx item_ctx = {0};
    int64_t sample = first + i;
    at[i].status = hd__skips_get(elems + i * bytes, at[i].size, &item_ctx, split, &sample);
  }
  for (int64_t i = 0; i < count; i++)
    if (at[i].status != HD_OK) {
      int64_t sample = first + i;
      HD_TRY(hd__skips_get(elems + i * bytes, at[i].size, ctx, split, &sample));
    }
  return HD_OK;
}

hd_status hd__walk(hd_ctx *ctx, const hd_dataset *split, hd_visit_fn *visit, void *self) {
  const int64_t block = block_of(split), bytes = hd__dataset_most_bytes(split);
  HD_OWNED uint8_t *elems = hd__malloc((size_t)(block * bytes));
  HD_OWNED slot *at = hd__calloc((size_t)block, sizeof *at);
  HD_TRY(HD_ALLOCATED(elems && at, ctx, "out of memory for a block of samples"));
  for (int64_t first = 0; first < split->count; first += block) {
    const int64_t count = split->count - first < block ? split->count - first : block;
    HD_TRY(fill(elems, at, ctx, split, first, count));
    for (int64_t i = 0; i < count; i++)
      HD_TRY(visit(self, ctx, first + i, elems + i * bytes, at[i].size));
  }
  return HD_OK;
}
