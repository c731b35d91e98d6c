/* Statistics and checksums; see split_statistics.h. */
#include "data/split/split_statistics.h"

#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "data/split/skipped_samples.h"
#include "platform/parallel_for.h"

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t words16 __attribute__((vector_size(32)));
typedef uint32_t sums16 __attribute__((vector_size(64)));

/* Adds bytes and their squares, sixteen in parallel, in blocks that fit 32 bits. */
static void sum_bytes(const uint8_t *bytes, int64_t count, uint64_t *sum, uint64_t *squares) {
  enum { BLOCK = 1 << 16 };
  int64_t whole = count / 16 * 16;
  for (int64_t at = 0; at < whole; at += BLOCK) {
    int64_t end = at + BLOCK < whole ? at + BLOCK : whole;
    sums16 s = {0}, q = {0};
    for (int64_t i = at; i < end; i += 16) {
      bytes16 raw;
      memcpy(&raw, bytes + i, sizeof raw);
      words16 wide = __builtin_convertvector(raw, words16);
      s += __builtin_convertvector(wide, sums16);
      q += __builtin_convertvector(wide * wide, sums16);
    }
    for (int i = 0; i < 16; i++) {
      *sum += s[i];
      *squares += q[i];
    }
  }
  for (int64_t i = whole; i < count; i++) {
    *sum += bytes[i];
    *squares += (uint64_t)bytes[i] * bytes[i];
  }
}

static double round4(double x) { return floor(x * 1e4 + 0.5) / 1e4; }

static void round_both(double *mean, double *std, double average, double variance) {
  *mean = round4(average);
  *std = round4(sqrt(variance > 0 ? variance : 0));
  if (*std == 0)
    *std = 1; /* of a constant channel */
}

/* The bytes of a split of one channel, which several threads add. Integers: any order gives the same sum. */
typedef struct byte_sums {
  const uint8_t *bytes;
  atomic_ullong sum, squares;
} byte_sums;

static void sum_some_bytes(void *arg, int64_t first, int64_t end) {
  byte_sums *all = arg;
  uint64_t s = 0, q = 0;
  sum_bytes(all->bytes + first, end - first, &s, &q);
  atomic_fetch_add_explicit(&all->sum, s, memory_order_relaxed);
  atomic_fetch_add_explicit(&all->squares, q, memory_order_relaxed);
}

static void count_bytes(double *mean, double *std, const hd_split *split, int channel) {
  int64_t plane = (int64_t)split->height * split->width;
  uint64_t sum = 0, squares = 0;
  if (split->channels == 1) {
    byte_sums all = {.bytes = split->images};
    hd__parallel_for(split->count * plane, 1 << 20, sum_some_bytes, &all);
    sum = all.sum;
    squares = all.squares;
  } else {
    for (int64_t n = 0; n < split->count; n++)
      sum_bytes(split->images + (n * split->channels + channel) * plane, plane, &sum, &squares);
  }
  double count = (double)(split->count * plane), average = (double)sum / count / 255;
  round_both(mean, std, average, (double)squares / count / (255.0 * 255) - average * average);
}

/* Adds differences to `origin` and their squares, in the order of the elements. */
static void sum_floats(const float *x, int64_t count, double origin, double *sum, double *squares) {
  double s = 0, q = 0;
  for (int64_t i = 0; i < count; i++) {
    double d = (double)x[i] - origin;
    s += d;
    q += d * d;
  }
  *sum += s;
  *squares += q;
}

static void count_floats(double *mean, double *std, const hd_split *split, int channel) {
  int64_t plane = (int64_t)split->height * split->width;
  double origin = (double)split->floats[channel * plane], sum = 0, squares = 0;
  for (int64_t n = 0; n < split->count; n++)
    sum_floats(split->floats + (n * split->channels + channel) * plane, plane, origin, &sum, &squares);
  double count = (double)(split->count * plane), average = sum / count;
  round_both(mean, std, origin + average, squares / count - average * average);
}

void hd__channel_statistics(double *mean, double *std, const hd_split *split, int channel) {
  (split->elem == HD_ELEM_U8 ? count_bytes : count_floats)(mean, std, split, channel);
}

uint64_t hd__samples_checksum(const hd_split *split) {
  size_t bytes = (size_t)(split->count * hd__split_most_bytes(split));
  return hd__xxh3(split->images ? (const void *)split->images : split->floats, bytes);
}

/* Labels as bytes where they are all below 256, else as 32-bit numbers; targets as big-endian floats. */
hd_status hd__labels_checksum(uint64_t *out, hd_ctx *ctx, const hd_split *split) {
  const int64_t count = split->labels ? split->count : split->count * split->outputs;
  if (split->masks) {
    *out = hd__xxh3(split->masks, (size_t)hd__split_mask_bytes(split));
    return HD_OK;
  }
  bool narrow = split->labels != NULL;
  for (int64_t i = 0; i < count && narrow; i++)
    narrow = split->labels[i] < 256;
  const int bytes = narrow ? 1 : 4;
  HD_OWNED uint8_t *all = hd__malloc((size_t)(count * bytes));
  HD_TRY(HD_ALLOCATED(all, ctx, "out of memory for a checksum of %lld labels", (long long)split->count));
  for (int64_t i = 0; i < count; i++) {
    uint32_t word;
    memcpy(&word, split->labels ? (const void *)&split->labels[i] : &split->targets[i], sizeof word);
    for (int b = 0; b < bytes; b++)
      all[i * bytes + b] = (uint8_t)(word >> 8 * (split->labels ? b : bytes - 1 - b));
  }
  *out = hd__xxh3(all, (size_t)(count * bytes));
  return HD_OK;
}

/* Weights change the sum. */
static hd_status weighed_checksum(uint64_t *out, hd_ctx *ctx, const hd_split *split) {
  HD_TRY(hd__labels_checksum(out, ctx, split));
  if (split->weights) {
    const uint64_t both[2] = {*out, hd__xxh3(split->weights, (size_t)split->count * sizeof *split->weights)};
    *out = hd__xxh3(both, sizeof both);
  }
  return HD_OK;
}

/* State of a walk over a split that is not in memory. */
typedef struct walker {
  const hd_split *split;
  hd_xxh3 *sum;
  int64_t pixels;                          /* per channel, so far */
  uint64_t bytes[HD_DATA_MAX_CHANNELS][2]; /* sums and squares */
  double floats[HD_DATA_MAX_CHANNELS][2];  /* of differences to `origin` */
  double origin[HD_DATA_MAX_CHANNELS];
} walker;

static hd_status add_sample(void *self, hd_ctx *ctx, int64_t sample, const void *elems, const int size[2]) {
  walker *w = self;
  const int64_t plane = (int64_t)size[0] * size[1];
  hd__xxh3_update(w->sum, elems, (size_t)(plane * w->split->channels * hd__split_elem_bytes(w->split)));
  if (sample >= w->split->count - w->split->validation)
    return HD_OK;
  w->pixels += plane;
  for (int c = 0; c < w->split->channels; c++) {
    if (w->split->elem == HD_ELEM_U8) {
      sum_bytes((const uint8_t *)elems + c * plane, plane, &w->bytes[c][0], &w->bytes[c][1]);
      continue;
    }
    const float *from = (const float *)elems + c * plane;
    if (sample == 0)
      w->origin[c] = (double)from[0];
    sum_floats(from, plane, w->origin[c], &w->floats[c][0], &w->floats[c][1]);
  }
  return HD_OK;
}

static hd_status measure_walk(hd_statistics *out, hd_ctx *ctx, const hd_split *split, int part) {
  walker w = {.split = split, .sum = hd__xxh3_create()};
  HD_TRY(HD_ALLOCATED(w.sum, ctx, "out of memory for a checksum"));
  hd_status status = hd__split_walk(ctx, split, add_sample, &w);
  out->checksum[part] = hd__xxh3_finish(w.sum);
  for (int c = 0; c < split->channels && part == 0 && status == HD_OK; c++) {
    const bool bytes = split->elem == HD_ELEM_U8;
    const double count = (double)w.pixels;
    const double sum = bytes ? (double)w.bytes[c][0] / count / 255 : w.floats[c][0] / count;
    const double squares = bytes ? (double)w.bytes[c][1] / count / (255.0 * 255) : w.floats[c][1] / count;
    round_both(&out->mean[c], &out->std[c], bytes ? sum : w.origin[c] + sum, squares - sum * sum);
  }
  return status;
}

/* What the checksums of samples in memory are computed from, and where they go. */
typedef struct sample_sums {
  const hd_split *split[2];
  uint64_t *checksum;
} sample_sums;

static void sum_some_splits(void *arg, int64_t first, int64_t end) {
  const sample_sums *s = arg;
  for (int64_t i = first; i < end; i++)
    if (hd__split_in_memory(s->split[i]))
      s->checksum[2 * i] = hd__samples_checksum(s->split[i]);
}

hd_status hd__statistics_measure(hd_statistics *out, hd_ctx *ctx, const hd_split *train, const hd_split *test) {
  const hd_split *split[2] = {train, test};
  hd_split trained = *train;
  trained.count -= trained.validation;
  for (int s = 0; s < 2; s++) {
    if (split[s]->window) {
      out->checksum[2 * s] = split[s]->key;
      out->mean[0] = 0;
      out->std[0] = 1;
      continue;
    }
    if (!hd__split_in_memory(split[s])) /* before its labels, which may be read with the samples */
      HD_TRY(measure_walk(out, ctx, split[s], 2 * s));
    HD_TRY(weighed_checksum(&out->checksum[2 * s + 1], ctx, split[s]));
  }
  for (int c = 0; c < train->channels && hd__split_in_memory(train); c++)
    hd__channel_statistics(&out->mean[c], &out->std[c], &trained, c);
  sample_sums sums = {{train, test}, out->checksum};
  hd__parallel_for(2, 1, sum_some_splits, &sums);
  return HD_OK;
}

/* ---- Walks: samples are decoded in blocks ---- */

/* A block of many samples is worth starting threads for. */
enum { MOST_BLOCK = 2048, BLOCK_BYTES = 1 << 26, GRAIN = 4 };

typedef struct slot {
  int size[2];
  hd_status status;
} slot;

/* Samples that fit BLOCK_BYTES, at least one. */
static int64_t block_of(const hd_split *split) {
  const int64_t bytes = hd__split_most_bytes(split), fit = bytes > 0 ? BLOCK_BYTES / bytes : MOST_BLOCK;
  const int64_t most = split->count < MOST_BLOCK ? split->count : MOST_BLOCK;
  return fit < 1 ? 1 : fit < most ? fit : most;
}

/* A block that several threads decode. */
typedef struct block {
  const hd_split *split;
  int64_t first, bytes; /* of a sample */
  uint8_t *elems;
  slot *at;
} block;

static void decode_some(void *arg, int64_t from, int64_t end) {
  const block *b = arg;
  for (int64_t i = from; i < end; i++) {
    hd_ctx ctx = {0};
    int64_t sample = b->first + i;
    b->at[i].status = hd__skips_get(b->elems + i * b->bytes, b->at[i].size, &ctx, b->split, &sample);
  }
}

/* Decodes a block; a failed sample is read again for its message. */
static hd_status fill(uint8_t *elems, slot *at, hd_ctx *ctx, const hd_split *split, int64_t first, int64_t count) {
  const int64_t bytes = hd__split_most_bytes(split);
  block b = {split, first, bytes, elems, at};
  hd__parallel_for(count, GRAIN, decode_some, &b);
  for (int64_t i = 0; i < count; i++)
    if (at[i].status != HD_OK) {
      int64_t sample = first + i;
      HD_TRY(hd__skips_get(elems + i * bytes, at[i].size, ctx, split, &sample));
    }
  return HD_OK;
}

hd_status hd__split_walk(hd_ctx *ctx, const hd_split *split, hd_visit_fn *visit, void *self) {
  const int64_t most = block_of(split), bytes = hd__split_most_bytes(split);
  HD_OWNED uint8_t *elems = hd__malloc((size_t)(most * bytes));
  HD_OWNED slot *at = hd__calloc((size_t)most, sizeof *at);
  HD_TRY(HD_ALLOCATED(elems && at, ctx, "out of memory for a block of samples"));
  for (int64_t first = 0; first < split->count; first += most) {
    const int64_t count = split->count - first < most ? split->count - first : most;
    HD_TRY(fill(elems, at, ctx, split, first, count));
    for (int64_t i = 0; i < count && visit; i++)
      HD_TRY(visit(self, ctx, first + i, elems + i * bytes, at[i].size));
  }
  return HD_OK;
}

void hd__split_walk_labels(const hd_split *split, hd_labels_fn *visit, void *self) {
  enum { SOME = 256 };
  int32_t label[SOME];
  for (int64_t sample = 0; sample < split->count; sample++) {
    const bool reads_on = split->tokens > 0 && sample + 1 == split->count - split->validation;
    const int32_t places = reads_on ? 3 * split->width : split->width;
    for (int32_t first = 0; first < places; first += SOME) {
      const int32_t some = places - first < SOME ? places - first : SOME;
      split->window(NULL, label, split, &(hd_window){.sample = sample, .first = first, .count = some});
      visit(self, label, some);
    }
  }
}
