/* The test set of a data set that has none: a fifth of the samples, or one of several folds.
 *
 * Samples are taken from the end of a permutation that depends on their number alone, never on the seed. With class
 * labels each class gives a fifth of its samples, rounded so that all classes together give as many as without: after
 * each class the number so far is a fifth of the samples so far, but a class never gives its last sample, nor more than
 * its own fifth rounded up. The first rules (dataset.h), and regressions, take the end of the permutation as it is.
 *
 * Folds take the samples in turn: in the order of the permutation, and with class labels one class after the other, so
 * that two folds have equally many samples of each class, or differ by one. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/dataset/format.h"
#include "data/loader/sampler.h"
#include "heddle/dataset.h"

enum { EPOCH = 1 /* of the permutation; that of --val-split is 0 */ };

static int64_t fifth_of(int64_t count) { return (count + 2) / 5; }

/* The number of a class's samples that are taken, if `due` are missing from a fifth of the samples so far. */
static int64_t share_of(int64_t count, int64_t due) {
  const int64_t most = count > 1 ? (count + 4) / 5 : 0;
  return due < most ? due : most;
}

/* Marks the last samples of each class; `key`: sorted by class, and in a class by the place in `order`. */
static int64_t mark_classes(uint8_t *marks, const uint64_t *key, const uint64_t *order, int64_t count) {
  int64_t taken = 0;
  for (int64_t first = 0, end; first < count; first = end) {
    for (end = first; end < count && key[end] >> 32 == key[first] >> 32;)
      end++;
    const int64_t share = share_of(end - first, fifth_of(end) - taken);
    for (int64_t i = end - share; i < end; i++)
      marks[(uint32_t)order[(uint32_t)key[i]]] = 1;
    taken += share;
  }
  return taken;
}

static int by_value(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* Places in `order`, sorted by class (without labels all have the same) and then by place; the class is in the upper
 * half. */
static void sort_by_class(uint64_t *key, const uint64_t *order, int64_t count, const int32_t *labels) {
  for (int64_t i = 0; i < count; i++)
    key[i] = (uint64_t)(uint32_t)(labels ? labels[(uint32_t)order[i]] : 0) << 32 | (uint64_t)i;
  qsort(key, (size_t)count, sizeof *key, by_value);
}

/* The number of marked samples; 0 too if each class has one sample alone. */
static hd_status mark_fifth_of_classes(int64_t *taken, uint8_t *marks, hd_ctx *ctx, const uint64_t *order,
                                       int64_t count, const int32_t *labels) {
  HD_OWNED uint64_t *key = hd__malloc((size_t)count * sizeof *key);
  HD_TRY(HD_ALLOCATED(key, ctx, "out of memory for the split of %lld samples", (long long)count));
  sort_by_class(key, order, count, labels);
  *taken = mark_classes(marks, key, order, count);
  return HD_OK;
}

hd_status hd_folds(int32_t *fold, hd_ctx *ctx, int64_t count, const int32_t *labels, int32_t of) {
  if (!fold || of < 2 || of > HD_MOST_FOLDS || count < of || count > UINT32_MAX)
    return hd__fail(
        ctx, HD_E_USAGE,
        "expected 2 to %d folds and at least as many samples, found %d folds and %lld samples; use fewer folds",
        HD_MOST_FOLDS, (int)of, (long long)count);
  HD_OWNED uint64_t *scratch = hd__malloc(hd__permute_words(count) * sizeof *scratch);
  HD_OWNED uint64_t *key = hd__malloc((size_t)count * sizeof *key);
  HD_TRY(HD_ALLOCATED(scratch && key, ctx, "out of memory for the folds of %lld samples", (long long)count));
  const uint64_t *order = hd__permute(scratch, count, 0, HD_RNG_SPLIT, EPOCH);
  sort_by_class(key, order, count, labels);
  for (int64_t i = 0; i < count; i++)
    fold[(uint32_t)order[(uint32_t)key[i]]] = (int32_t)(i % of) + 1;
  return HD_OK;
}

static hd_status mark_fold(uint8_t *marks, hd_ctx *ctx, const char *path, int64_t count, const int32_t *labels,
                           hd_fold part) {
  HD_OWNED int32_t *fold = hd__malloc((size_t)count * sizeof *fold);
  HD_TRY(HD_ALLOCATED(fold, ctx, "%s: out of memory for the folds of %lld samples", path, (long long)count));
  const hd_status status = hd_folds(fold, ctx, count, labels, part.of);
  if (status != HD_OK)
    return hd__fail_in(ctx, status == HD_E_USAGE ? HD_E_FORMAT : status, "%s: --fold %d/%d", path, part.number,
                       part.of);
  for (int64_t i = 0; i < count; i++)
    marks[i] = fold[i] == part.number;
  return HD_OK;
}

hd_status hd__dataset_mark_test(uint8_t **marks, hd_dataset *data, hd_ctx *ctx, const char *path, int64_t count,
                                const int32_t *labels) {
  int64_t taken = 0;
  if (count < 2 || count > UINT32_MAX)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected from 2 up to %u samples, to train and to test, found %lld; add more", path,
                    UINT32_MAX, (long long)count);
  HD_OWNED uint64_t *scratch = hd__malloc(hd__permute_words(count) * sizeof *scratch);
  *marks = hd__calloc((size_t)count, 1);
  HD_TRY(
      HD_ALLOCATED(scratch && *marks, ctx, "%s: out of memory for the split of %lld samples", path, (long long)count));
  const uint64_t *order = hd__permute(scratch, count, 0, HD_RNG_SPLIT, EPOCH);
  data->divided = true;
  if (data->fold.of > 0)
    return mark_fold(*marks, ctx, path, count, labels, data->fold);
  if (labels && !data->first_rules)
    HD_TRY(mark_fifth_of_classes(&taken, *marks, ctx, order, count, labels));
  const int64_t plain = taken ? 0 : fifth_of(count) ? fifth_of(count) : 1;
  for (int64_t i = count - plain; i < count; i++)
    (*marks)[(uint32_t)order[i]] = 1;
  return HD_OK;
}
