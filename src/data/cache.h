/* Decoded samples kept for the next time: in memory, or in a file that is mapped.
 *
 * Only splits that are decoded sample by sample are kept; others are in memory anyway. In memory: where both splits
 * take at most a quarter of what this process may use; else they are decoded each time. On disk: in
 * ~/.cache/heddle/decoded-KEY (or below HEDDLE_CACHE), where KEY follows from the names, sizes and times of the
 * source's files.
 *
 *     | magic, key, checksums, count, bytes, version, shape | sizes, where each sample has its own | samples |
 *
 * The checksums, XXH3-64 over samples and over sizes, are verified when a file is opened. What does not fit is
 * written anew, under another name that becomes the final one at the end. */
#ifndef HD_DATA_CACHE_H
#define HD_DATA_CACHE_H

#include "data/dataset.h"
#include "sys/file.h"

typedef struct hd_cache {
  hd_mapping file;
  uint8_t *memory;
  const uint8_t *samples;
  const int32_t (*size)[2]; /* height and width, where each sample has its own */
  int64_t *offset;          /* and where it begins, in bytes */
} hd_cache;

/* Bytes that a split takes when decoded. */
int64_t hd__cache_bytes(const hd_dataset *split);

/* Decodes a whole split into memory, and makes it one that is there. */
hd_status hd__cache_in_memory(hd_cache *out, hd_dataset *split, hd_ctx *ctx);

/* The same by a file. */
hd_status hd__cache_on_disk(hd_cache *out, hd_dataset *split, hd_ctx *ctx);

void hd__cache_fini(hd_cache *cache);

#endif
