/* IDX files, as MNIST comes: plain (mapped, not copied) or gzip (decompressed into exactly what the header declares).
 *
 *     | 0 0 type rank | rank sizes, 32 bits big-endian | bytes |
 *
 * Only unsigned bytes (type 8) are read. Magic, rank, sizes, length and checksums are verified; a file that lies is
 * refused before anything is allocated for it. */
#ifndef HD_DATA_IDX_H
#define HD_DATA_IDX_H

#include <stdint.h>

#include "base/status.h"
#include "sys/file.h"

enum { HD_IDX_MAX_RANK = 4 };

typedef struct hd_idx {
  int rank;
  int64_t size[HD_IDX_MAX_RANK];
  const uint8_t *bytes; /* the content, sizes multiplied */
  int64_t length;
  hd_mapping mapping; /* plain files */
  uint8_t *copy;      /* gzip files */
} hd_idx;

/* Reads `path` (".gz" decides) and demands this rank. */
hd_status hd__idx_read(hd_idx *out, hd_ctx *ctx, const char *path, int rank);
void hd__idx_fini(hd_idx *idx);

#endif
