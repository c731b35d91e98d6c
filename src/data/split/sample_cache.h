/* Cache of decoded samples: in memory, or in a mapped file.
 *
 * Only splits that are decoded sample by sample are cached; others are in memory in any case. In memory: if both
 * splits take at most a quarter of the memory that this process may use; else they are decoded each time. On disk:
 * in ~/.cache/heddle/decoded-KEY (or below HEDDLE_CACHE), where KEY follows from the names, sizes and times of the
 * samples' files.
 *
 *     | magic, key, checksums, count, bytes, version, shape | sizes, where each sample has its own | samples |
 *
 * Which files are used: see cache_file.h. Sizes are copied, verified, and used from the copy: samples may change
 * with the file, their bounds may not.
 *
 * The checksums, XXH3-64 over samples and over sizes, are verified when a file is opened. An invalid file is written
 * again, under a temporary name that becomes the final one at the end. */
#pragma once

#include "data/split/split.h"
#include "platform/file.h"

typedef struct hd_sample_cache {
  hd_mapping file;
  uint8_t *memory;
  const uint8_t *samples;
  const int32_t (*size)[2]; /* height and width, where each sample has its own */
  int64_t *offset;          /* and its offset in bytes */
} hd_sample_cache;

/* Bytes that a split takes when decoded. */
int64_t hd__cache_bytes(const hd_split *split);

/* Decodes a whole split into memory, where it is read from then on. */
hd_status hd__cache_in_memory(hd_sample_cache *out, hd_split *split, hd_ctx *ctx);

/* The same with a file. */
hd_status hd__cache_on_disk(hd_sample_cache *out, hd_split *split, hd_ctx *ctx);

void hd__cache_fini(hd_sample_cache *cache);
