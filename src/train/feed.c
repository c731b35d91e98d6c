/* Orders by radix sort, and the gather that lanes call for their own rows. */
#include "train/feed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"

hd_status hd__feed_init(hd_feed *feed, hd_ctx *ctx, const hd_dataset *data, const hd_kernels *kernels,
                        const double *mean, const double *std, bool shuffle) {
  *feed = (hd_feed){.data = data, .kernels = kernels, .count = data->count};
  if (data->channels > HD_FEED_MAX_CHANNELS)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "expected images of at most %d channels, found %d", HD_FEED_MAX_CHANNELS,
                    data->channels);
  for (int c = 0; c < data->channels; c++) {
    feed->scale[c] = (float)(1 / (255 * std[c]));
    feed->shift[c] = (float)(-mean[c] / std[c]);
  }
  if (!shuffle)
    return HD_OK;
  feed->order = hd__malloc((size_t)data->count * sizeof *feed->order);
  feed->scratch = hd__malloc(2 * (size_t)data->count * sizeof *feed->scratch);
  if (feed->order && feed->scratch)
    return HD_OK;
  hd__feed_fini(feed);
  return hd__fail(ctx, HD_E_NOMEM, "out of memory for the order of %lld samples", (long long)data->count);
}

void hd__feed_fini(hd_feed *feed) {
  hd__free(feed->members);
  hd__free(feed->order);
  hd__free(feed->scratch);
  *feed = (hd_feed){0};
}

/* One pass of a radix sort over 11 bits of the upper word; stable, so equal keys stay in index order. */
static void sort_pass(uint64_t *to, const uint64_t *from, int64_t count, int shift) {
  enum { BITS = 11, BUCKETS = 1 << BITS };
  int64_t start[BUCKETS] = {0}, sum = 0;
  for (int64_t i = 0; i < count; i++)
    start[from[i] >> shift & (BUCKETS - 1)]++;
  for (int b = 0; b < BUCKETS; b++) {
    int64_t here = start[b];
    start[b] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < count; i++)
    to[start[from[i] >> shift & (BUCKETS - 1)]++] = from[i];
}

/* Positions 0 .. count-1 sorted by (Philox key, position), in the lower words of what is returned; `scratch` has room
 * for twice as many. */
static const uint64_t *permute(uint64_t *scratch, int64_t count, uint64_t seed, hd_rng_purpose purpose,
                               uint32_t epoch) {
  uint64_t *a = scratch, *b = scratch + count;
  for (int64_t i = 0; i < count; i += 4) { /* a block of four words keys four neighbouring samples */
    uint32_t word[4];
    hd__rng_block(word, seed, purpose, epoch, (uint32_t)(i / 4), 0, 0);
    for (int64_t k = i; k < i + 4 && k < count; k++)
      a[k] = (uint64_t)word[k - i] << 32 | (uint64_t)k;
  }
  sort_pass(b, a, count, 32);
  sort_pass(a, b, count, 43);
  sort_pass(b, a, count, 54);
  return b;
}

void hd__feed_shuffle(hd_feed *feed, uint64_t seed, uint32_t epoch) {
  if (!feed->order)
    return;
  const uint64_t *sorted = permute(feed->scratch, feed->count, seed, HD_RNG_SHUFFLE, epoch);
  for (int64_t i = 0; i < feed->count; i++)
    feed->order[i] = feed->members ? feed->members[(uint32_t)sorted[i]] : (uint32_t)sorted[i];
}

/* Makes both lists of members from a mark per sample. */
static void list_members(hd_feed *held_out, hd_feed *feed, const char *held) {
  int64_t kept = 0, taken = 0, all = feed->count;
  for (int64_t i = 0; i < all; i++)
    if (held[i])
      held_out->members[taken++] = (uint32_t)i;
    else
      feed->members[kept++] = (uint32_t)i;
  held_out->count = taken;
  feed->count = kept;
}

hd_status hd__feed_split(hd_feed *held_out, hd_feed *feed, hd_ctx *ctx, double share, uint64_t seed) {
  int64_t all = feed->count, taken = (int64_t)(share * (double)all + 0.5);
  *held_out = (hd_feed){0};
  if (taken < 1 || taken >= all)
    return hd__fail(ctx, HD_E_USAGE,
                    "--val-split expects a fraction that leaves samples on both sides, found %lld of %lld held out; "
                    "use another",
                    (long long)taken, (long long)all);
  *held_out = *feed;
  held_out->order = NULL;
  held_out->scratch = NULL;
  held_out->members = hd__malloc((size_t)taken * sizeof *held_out->members);
  feed->members = hd__malloc((size_t)(all - taken) * sizeof *feed->members);
  uint64_t *scratch = hd__malloc(2 * (size_t)all * sizeof *scratch);
  char *held = hd__calloc((size_t)all, 1);
  bool enough = held_out->members && feed->members && scratch && held;
  if (enough) {
    const uint64_t *sorted = permute(scratch, all, seed, HD_RNG_SPLIT, 0);
    for (int64_t i = all - taken; i < all; i++)
      held[(uint32_t)sorted[i]] = 1;
    list_members(held_out, feed, held);
  }
  hd__free(scratch);
  hd__free(held);
  return enough ? HD_OK : hd__fail(ctx, HD_E_NOMEM, "out of memory for the split of %lld samples", (long long)all);
}

int64_t hd__feed_sample(const hd_feed *feed, int64_t position) {
  return feed->order ? feed->order[position] : feed->members ? feed->members[position] : position;
}

static void fetch_target(const hd_dataset *data, int64_t sample, int64_t row, const hd_slots *to) {
  if (to->outputs == 0) {
    ((int32_t *)to->target)[row * to->target_stride] = data->labels[sample];
    return;
  }
  float *target = (float *)to->target + row * to->target_stride;
  for (int32_t i = 0; i < to->outputs; i++)
    target[i] = hd__dataset_number(data, sample, i);
}

/* Asks for the image that the same lane gathers next time at this place: in another order than the file's every image
 * would be waited for, and gathering one takes as long as fetching another. (Inlined always: gcc takes a function that
 * only prefetches for one that does nothing.) */
static inline __attribute__((always_inline)) void ask_for(const hd_feed *feed, int64_t position, int64_t bytes) {
  enum { LINE_BYTES = 64 };
  if (!feed->order || position >= feed->count)
    return;
  const uint8_t *image = feed->data->images + hd__feed_sample(feed, position) * bytes;
  for (int64_t i = 0; i < bytes; i += LINE_BYTES)
    __builtin_prefetch(image + i, 0, 2);
  __builtin_prefetch(image + bytes - 1, 0, 2);
}

void hd__feed_fetch(const hd_feed *feed, int64_t first, int64_t rows, const hd_slots *to) {
  const hd_dataset *data = feed->data;
  int64_t plane = (int64_t)data->height * data->width, bytes = plane * data->channels;
  for (int64_t r = 0; r < rows; r++) {
    int64_t sample = hd__feed_sample(feed, first + r);
    feed->kernels->gather_u8(to->x + r * to->x_stride, data->images + sample * bytes, plane, data->channels,
                             feed->scale, feed->shift);
    ask_for(feed, first + r + feed->batch, bytes);
    fetch_target(data, sample, r, to);
  }
}
