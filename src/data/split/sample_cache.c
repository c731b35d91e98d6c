/* Filling and reading caches; see sample_cache.h. */
#include "data/split/sample_cache.h"

#include "base/alloc.h"
#include "base/digest.h"
#include "data/split/cache_file.h"
#include "data/split/split_statistics.h"

enum { LAYOUT = 1, SIZE_BYTES = 2 * sizeof(int32_t) };

/* The file's header, in this machine's byte order: the other order gives another magic. */
typedef struct head {
  uint64_t magic, key, checksum, sizes_checksum;
  int64_t count, samples_bytes;
  int32_t version, elem, channels, height, width, unused;
} head;

static const uint64_t magic = UINT64_C(0x6568636164646568); /* "heddcache", nearly */

int64_t hd__cache_bytes(const hd_split *split) {
  const int64_t elems = split->mixed ? split->all_elems : split->count * hd__split_elems(split);
  return elems * hd__split_elem_bytes(split);
}

static int64_t sizes_bytes(const hd_split *split) { return split->mixed ? split->count * SIZE_BYTES : 0; }

static head head_of(const hd_split *split) {
  return (head){.magic = magic,
                .key = split->key,
                .count = split->count,
                .samples_bytes = hd__cache_bytes(split),
                .version = LAYOUT,
                .elem = (int32_t)split->elem,
                .channels = split->channels,
                .height = split->height,
                .width = split->width};
}

/* A cached sample, if sizes differ. */
static hd_status get_kept(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample) {
  const hd_sample_cache *cache = split->self;
  memcpy(elems, cache->samples + cache->offset[sample], (size_t)(cache->offset[sample + 1] - cache->offset[sample]));
  size[0] = cache->size[sample][0];
  size[1] = cache->size[sample][1];
  return HD_OK;
}

/* Computes where samples begin; false if sizes and bytes are inconsistent. */
static bool find_offsets(hd_sample_cache *cache, const hd_split *split) {
  const int64_t elem = split->channels * hd__split_elem_bytes(split), all = hd__cache_bytes(split);
  const int64_t most = hd__split_most_bytes(split);
  cache->offset[0] = 0;
  for (int64_t i = 0; i < split->count; i++) {
    const int64_t h = cache->size[i][0], w = cache->size[i][1], at = cache->offset[i];
    if (h < 1 || w < 1 || h > most / w || h * w * elem > most || h * w * elem > all - at)
      return false;
    cache->offset[i + 1] = at + h * w * elem;
  }
  return cache->offset[split->count] == all;
}

/* Makes the split read from the cache. */
static hd_status adopt(hd_sample_cache *cache, hd_split *split, hd_ctx *ctx) {
  if (!split->mixed) {
    if (split->elem == HD_ELEM_U8)
      split->images = cache->samples;
    else
      split->floats = (const float *)(const void *)cache->samples;
    return HD_OK;
  }
  HD_TRY(HD_NEW_RAW(cache->offset, split->count + 1, ctx, "out of memory for %lld decoded samples",
                    (long long)split->count));
  if (!find_offsets(cache, split))
    return hd__fail(ctx, HD_E_FORMAT, "%s: the samples have changed since they were counted; start again",
                    split->mixed);
  split->get = get_kept;
  split->self = cache;
  return HD_OK;
}

/* Destination of a walk: memory, or a file. Sizes, which precede the samples, are written to a file at the end. */
typedef struct sink {
  const hd_split *split;
  int32_t (*size)[2];
  int64_t written; /* bytes of samples */
  uint8_t *memory; /* NULL: */
  FILE *to;
  hd_xxh3 *sum;
} sink;

static hd_status keep(void *self, hd_ctx *ctx, int64_t sample, const void *elems, const int size[2]) {
  sink *s = self;
  const int64_t bytes = (int64_t)size[0] * size[1] * s->split->channels * hd__split_elem_bytes(s->split);
  if (bytes > hd__cache_bytes(s->split) - s->written)
    return hd__fail(ctx, HD_E_FORMAT, "sample %lld has changed since it was counted; start again", (long long)sample);
  if (s->size)
    memcpy(s->size[sample], (int32_t[2]){size[0], size[1]}, sizeof *s->size);
  if (s->memory) {
    memcpy(s->memory + s->written, elems, (size_t)bytes);
  } else {
    hd__xxh3_update(s->sum, elems, (size_t)bytes);
    fwrite(elems, 1, (size_t)bytes, s->to); /* errors are checked when the file is closed */
  }
  s->written += bytes;
  return HD_OK;
}

hd_status hd__cache_in_memory(hd_sample_cache *out, hd_split *split, hd_ctx *ctx) {
  const int64_t sizes = sizes_bytes(split), bytes = hd__cache_bytes(split);
  out->memory = hd__malloc_aligned((size_t)(sizes + bytes));
  HD_TRY(HD_ALLOCATED(out->memory, ctx, "out of memory for %lld decoded samples; use --cache disk or none",
                      (long long)split->count));
  sink s = {.split = split, .memory = out->memory + sizes};
  if (split->mixed)
    s.size = (int32_t(*)[2])(void *)out->memory;
  out->samples = s.memory;
  out->size = (const int32_t(*)[2])s.size;
  HD_TRY(hd__split_walk(ctx, split, keep, &s));
  return adopt(out, split, ctx);
}

static hd_status write_all(FILE *to, hd_ctx *ctx, void *arg) {
  const hd_split *split = arg;
  const size_t sizes = (size_t)sizes_bytes(split);
  head h = head_of(split);
  HD_OWNED int32_t(*size)[2] = hd__malloc(sizes + 1);
  sink w = {.split = split, .to = to, .sum = hd__xxh3_create(), .size = sizes > 0 ? size : NULL};
  hd_status status = HD_ALLOCATED(w.sum && size, ctx, "out of memory for a cache");
  fseek(to, (long)(sizeof h + sizes), SEEK_SET);
  HD_THEN(status, hd__split_walk(ctx, split, keep, &w));
  h.checksum = hd__xxh3_finish(w.sum);
  HD_TRY(status);
  hd__file_guard(to);
  h.sizes_checksum = sizes > 0 ? hd__xxh3(size, sizes) : 0;
  rewind(to);
  fwrite(&h, sizeof h, 1, to);
  fwrite(size, 1, sizes, to);
  return HD_OK;
}

/* Sizes are copied before they are verified: memory accesses depend on them, and a mapping changes with its file. */
static hd_status copy_sizes(hd_sample_cache *out, hd_ctx *ctx, const uint8_t *from, size_t bytes) {
  if (bytes == 0)
    return HD_OK;
  out->memory = hd__malloc_aligned(bytes);
  HD_TRY(HD_ALLOCATED(out->memory, ctx, "out of memory for the sizes of decoded samples; use --cache none"));
  memcpy(out->memory, from, bytes);
  out->size = (const int32_t(*)[2])(const void *)out->memory;
  return HD_OK;
}

/* Maps a file; *whole is set if it exists, is trusted and intact. */
static hd_status map_whole(hd_sample_cache *out, bool *whole, hd_ctx *ctx, const hd_split *split, const char *path) {
  const head want = head_of(split);
  const size_t sizes = (size_t)sizes_bytes(split), samples = (size_t)want.samples_bytes;
  hd_ctx quiet = {0};
  head found;
  *whole =
      hd__file_map_guarded(&out->file, &quiet, path) == HD_OK && out->file.length == sizeof found + sizes + samples;
  if (*whole) {
    memcpy(&found, out->file.bytes, sizeof found);
    const uint64_t checksum = found.checksum, sizes_checksum = found.sizes_checksum;
    found.checksum = found.sizes_checksum = 0;
    out->samples = out->file.bytes + sizeof found + sizes;
    HD_TRY(copy_sizes(out, ctx, out->file.bytes + sizeof found, sizes));
    *whole = !memcmp(&found, &want, sizeof want) && hd__xxh3(out->samples, samples) == checksum &&
             (sizes == 0 ? 0 : hd__xxh3(out->size, sizes)) == sizes_checksum;
  }
  if (!*whole)
    hd__cache_fini(out);
  return HD_OK;
}

hd_status hd__cache_on_disk(hd_sample_cache *out, hd_split *split, hd_ctx *ctx) {
  char folder[HD_PATH_BYTES], path[HD_PATH_BYTES];
  bool whole;
  HD_TRY(hd__cache_file_path(path, folder, ctx, "decoded", split->key));
  HD_TRY(map_whole(out, &whole, ctx, split, path));
  if (!whole) {
    HD_TRY(hd__file_make_folder(ctx, folder));
    HD_TRY(hd__file_write_cache(ctx, path, write_all, split));
    HD_TRY(map_whole(out, &whole, ctx, split, path));
    if (!whole)
      return hd__fail(ctx, HD_E_IO,
                      "%s: expected the bytes that were just written, found others; the disk may be failing, check its "
                      "health (dmesg, smartctl)",
                      path);
  }
  return adopt(out, split, ctx);
}

void hd__cache_fini(hd_sample_cache *cache) {
  hd__file_unmap(&cache->file);
  hd__free(cache->memory);
  hd__free(cache->offset);
  *cache = (hd_sample_cache){0};
}
