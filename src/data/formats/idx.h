/* IDX files, MNIST's format: plain (mapped, not copied) or gzip (decompressed into exactly what the header
 * declares).
 *
 *     | 0 0 type rank | rank sizes, 32 bits big-endian | bytes |
 *
 * Unsigned bytes (type 8) are read, and as targets 32-bit floats (type 13), which stay big-endian. Magic, rank,
 * sizes, length and checksums are verified; an inconsistent file is refused before anything is allocated for it. */
#pragma once

#include <stdint.h>

#include "base/status.h"
#include "platform/file.h"

#define HD_IDX_TRAIN_IMAGES "train-images-idx3-ubyte"

enum { HD_IDX_MAX_RANK = 4 };

typedef struct hd_idx {
  int rank, elem_bytes; /* 1: bytes, 4: floats */
  int64_t size[HD_IDX_MAX_RANK];
  const uint8_t *bytes; /* the content */
  int64_t length;       /* in bytes */
  hd_mapping mapping;   /* plain files */
  uint8_t *copy;        /* gzip files */
} hd_idx;

/* Reads `path` (gzip if it ends with ".gz"), which must hold bytes of this rank; instead of a rank, labels: bytes of
 * rank 1 (of classes) or floats of rank 1 or 2 (targets). */
enum { HD_IDX_LABELS = 0 };
hd_status hd__idx_read(hd_idx *out, hd_ctx *ctx, const char *path, int rank);
void hd__idx_fini(hd_idx *idx);

/* Finds folder/part as published, with a dot for the last hyphen but one, or with .gz behind. Returns 0 if none
 * exists. */
int hd__idx_find(char out[HD_PATH_BYTES], const char *folder, const char *part);
