/* What readers of formats share: see format.h. */
#include "data/formats/format.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/loader/sampler.h"

bool hd__path_ends(const char *path, const char *end) {
  size_t length = strlen(path), tail = strlen(end);
  return length >= tail && !strcasecmp(path + length - tail, end);
}

hd_status hd__opened_hold(void **self, hd_opened *out, hd_ctx *ctx, size_t bytes, void (*release)(void *self)) {
  *self = hd__calloc(1, bytes);
  HD_TRY(HD_ALLOCATED(*self, ctx, "out of memory for the data set"));
  out->self = *self;
  out->release = release;
  return HD_OK;
}

hd_status hd__data_fifth(uint8_t **marks, hd_ctx *ctx, const char *path, int64_t count) {
  enum { EPOCH = 1 /* that of --val-split is 0 */ };
  if (count < 2 || count > UINT32_MAX)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected from 2 up to %u samples, to train and to test, found %lld; add more", path,
                    UINT32_MAX, (long long)count);
  uint64_t *scratch = hd__malloc(hd__permute_words(count) * sizeof *scratch);
  *marks = hd__calloc((size_t)count, 1);
  if (scratch && *marks) {
    const uint64_t *sorted = hd__permute(scratch, count, 0, HD_RNG_SPLIT, EPOCH);
    int64_t taken = (count + 2) / 5;
    for (int64_t i = count - (taken ? taken : 1); i < count; i++)
      (*marks)[(uint32_t)sorted[i]] = 1;
    hd__free(scratch);
    return HD_OK;
  }
  hd__free(scratch);
  hd__free(*marks);
  *marks = NULL;
  return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for the split of %lld samples", path, (long long)count);
}
