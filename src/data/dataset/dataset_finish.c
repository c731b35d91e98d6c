/* Limits of every data set, decoding, statistics and rows; see dataset_finish.h. */
#include "data/dataset/dataset_finish.h"

#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "data/dataset/format.h"
#include "data/split/sample_weights.h"
#include "platform/cgroup.h"

/* Limits of every data set: sample numbers have 32 bits, kernels limit the channels. */
static hd_status check_split(hd_ctx *ctx, const char *name, const hd_split *s) {
  const char *what = NULL;
  long long found = 0, most = 0;
  if (s->count < 1 || s->count > UINT32_MAX)
    what = "samples", found = s->count, most = UINT32_MAX;
  else if (s->channels < 1 || s->channels > HD_DATA_MAX_CHANNELS)
    what = "channels", found = s->channels, most = HD_DATA_MAX_CHANNELS;
  else if (!s->mixed && (s->height < 1 || s->height > HD_DATA_MAX_SIDE))
    what = "rows per image", found = s->height, most = HD_DATA_MAX_SIDE;
  else if (!s->mixed && (s->width < 1 || s->width > HD_DATA_MAX_SIDE))
    what = s->flat ? "numbers per sample" : "columns per image", found = s->width, most = HD_DATA_MAX_SIDE;
  if (!what)
    return HD_OK;
  return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected from 1 up to %lld %s, found %lld; reshape the data", name, most,
                  what, found);
}

/* Whether a pixel has a class. */
static bool has_classes(const hd_split *s) {
  const int64_t bytes = hd__split_mask_bytes(s);
  int64_t i = 0;
  while (i < bytes && s->masks[i] == HD_NO_CLASS)
    i++;
  return i < bytes;
}

/* Masks are of several pixels, of which one has a class at least. */
static hd_status check_masks(hd_ctx *ctx, const char *name, const hd_split *s, const char *part) {
  if (!s->mixed && hd__split_plane(s) == 1)
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected masks of several pixels, found 1x1; give pictures of one pixel a label each", name);
  return has_classes(s) ? HD_OK
                        : hd__fail(ctx, HD_E_FORMAT,
                                   "%s: expected pixels with a class in the %s set, found %d, no class, in all; number "
                                   "the classes from 0",
                                   name, part, HD_NO_CLASS);
}

static hd_status check_alike(hd_ctx *ctx, const char *name, const hd_split *a, const hd_split *b) {
  if (!a->mixed && !b->mixed && (a->channels != b->channels || a->height != b->height || a->width != b->width))
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected test samples of %dx%dx%d as in training, found %dx%dx%d; they do not belong together",
                    name, a->channels, a->height, a->width, b->channels, b->height, b->width);
  if (a->elem != b->elem)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected test samples of %s as in training, found %s; they do not belong together", name,
                    a->elem == HD_ELEM_U8 ? "bytes" : "floats", b->elem == HD_ELEM_U8 ? "bytes" : "floats");
  if (a->outputs != b->outputs)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected %d float targets per sample as in training (0: class labels), found %d; they do not "
                    "belong together",
                    name, a->outputs, b->outputs);
  if (a->masked != b->masked)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected %s in the test set as in training, found %s; they do not belong together", name,
                    a->masked ? "a class for each pixel" : "a label for each sample", a->masked ? "others" : "masks");
  if (a->masked && (a->weights || b->weights))
    return hd__fail(ctx, HD_E_UNSUPPORTED,
                    "%s: expected samples without weights, since each pixel has a class, found weights; leave them out",
                    name);
  return HD_OK;
}

/* Splits with samples of their own. */
static int parts_of(const hd_dataset *data) { return data->shared ? 1 : 2; }

/* Decodes a split once into the cache, if it needs decoding and fits. */
static hd_status keep_decoded(hd_dataset *data, hd_ctx *ctx, hd_cache_choice kind) {
  enum { SHARE = 4 };
  hd_split *split = data->split;
  int64_t bytes = 0;
  for (int s = 0; s < parts_of(data); s++)
    bytes += hd__split_decodes(&split[s]) && !split[s].drawn ? hd__cache_bytes(&split[s]) : 0;
  const bool fits = bytes == 0 || bytes <= hd__memory_budget() / SHARE;
  for (int s = 0; s < parts_of(data); s++) {
    if (!hd__split_decodes(&split[s]) || split[s].drawn || kind == HD_CACHE_NONE)
      continue;
    if (kind == HD_CACHE_DISK && split[s].key)
      HD_TRY(hd__cache_on_disk(&data->cache[s], &split[s], ctx));
    else if (fits)
      HD_TRY(hd__cache_in_memory(&data->cache[s], &split[s], ctx));
  }
  return HD_OK;
}

/* ---- Rows of numbers ---- */

static bool has_rows(const hd_split *split) { return split->flat && split->floats && split->channels == 1; }

static hd_status choose_normalize(hd_dataset *data, hd_ctx *ctx, const hd_dataset_request *request) {
  const bool rows = has_rows(&data->split[0]) && has_rows(&data->split[1]);
  data->normalize = request->normalize;
  if (request->normalize == HD_NORMALIZE_AUTO)
    data->normalize = rows && request->rows ? HD_NORMALIZE_COLUMN : HD_NORMALIZE_CHANNEL;
  if (data->normalize != HD_NORMALIZE_COLUMN || rows)
    return HD_OK;
  if (request->of_run)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected rows of numbers as in training, found other samples; give rows of numbers",
                    data->name);
  return hd__fail(ctx, HD_E_USAGE,
                  "%s: expected rows of floats in memory for --normalize column, found other samples; use --normalize "
                  "channel",
                  data->name);
}

/* The features for a network that normalises its rows itself. */
static hd_status take_statistics(hd_dataset *data, hd_ctx *ctx, const hd_dataset_request *request) {
  hd_features *f = &data->features;
  if (f->count != request->columns)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected %lld numbers per row, as the network normalises, found %d; give rows of that length",
                    data->name, (long long)request->columns, f->count);
  f->given = true;
  for (int32_t i = 0; i < f->count; i++) {
    f->feature[i].mean = request->mean[i];
    f->feature[i].std = request->std[i];
  }
  return HD_OK;
}

/* The features of rows: a run's, those of the table, or a number for each column of an array. */
static hd_status find_features(hd_dataset *data, hd_ctx *ctx, const hd_dataset_request *request) {
  const bool given = request->features != NULL, columns = data->normalize == HD_NORMALIZE_COLUMN;
  if (data->features.count == 0 && given && columns)
    HD_TRY(hd__features_copy(&data->features, ctx, request->features));
  else if (data->features.count == 0 && columns)
    HD_TRY(hd__features_numbers(&data->features, ctx, data->split[0].width));
  if (data->features.count == 0)
    return HD_OK;
  if (data->features.count != data->split[0].width)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected %d numbers per row as in training, found %d; give rows of that length", data->name,
                    data->features.count, data->split[0].width);
  if (!given)
    HD_TRY(hd__features_measure(&data->features, ctx, data->memory[0].numbers, data->split[0].floats,
                                data->split[0].weights, data->split[0].count));
  if (request->mean && columns)
    HD_TRY(take_statistics(data, ctx, request));
  for (int s = 0; s < 2; s++)
    if (data->memory[s].floats)
      hd__features_fill(data->memory[s].numbers, data->memory[s].floats, &data->features, data->split[s].count);
  return HD_OK;
}

/* Rows are normalised in memory of their own: the format's may be a file. */
static hd_status normalise_columns(hd_dataset *data, hd_ctx *ctx) {
  for (int s = 0; s < parts_of(data) && data->normalize == HD_NORMALIZE_COLUMN; s++) {
    hd_split *split = &data->split[s];
    const int64_t elems = split->count * split->width;
    HD_TRY(
        HD_NEW_RAW(data->rows[s], elems, ctx, "%s: out of memory for %lld rows", data->name, (long long)split->count));
    memcpy(data->rows[s], split->floats, (size_t)elems * sizeof *data->rows[s]);
    hd__features_apply(data->rows[s], &data->features, data->memory[s].numbers, split->count);
    split->floats = data->rows[s];
    hd__free(data->memory[s].floats);
    data->memory[s].floats = NULL;
  }
  if (data->shared)
    data->split[1].floats = data->split[0].floats;
  for (int s = 0; s < 2; s++) {
    hd__free(data->memory[s].numbers);
    data->memory[s].numbers = NULL;
  }
  for (int c = 0; c < HD_DATA_MAX_CHANNELS && data->normalize != HD_NORMALIZE_CHANNEL; c++) {
    data->statistics.mean[c] = 0;
    data->statistics.std[c] = 1;
  }
  return HD_OK;
}

/* Labels that arrive as samples are read: all are read, and get the numbers of the run's classes; a last class that the
 * loss ignores is none, as in files, unless it has a name among them. */
static hd_status settle_late_labels(hd_dataset *data, hd_ctx *ctx, const hd_dataset_request *request) {
  hd_split *split = data->split;
  const bool counts = request->ignored >= 0 && request->ignored == split[0].classes - 1;
  const bool matches = request->classes.count > 0 && split[0].class_names;
  if (!data->read_later || (!counts && !matches))
    return HD_OK;
  for (int s = 0; s < parts_of(data); s++)
    if (!hd__split_in_memory(&split[s]))
      HD_TRY(hd__split_walk(ctx, &split[s], NULL, NULL));
  if (counts && !matches)
    return hd__dataset_count_classes(split, ctx, data->name, request->ignored);
  return hd__dataset_match_classes(data->labels, data, ctx, data->name, &request->classes, request->ignored);
}

/* Finds unreadable samples, and decodes the others if decoded samples are kept. */
static hd_status prepare_decoding(hd_dataset *data, hd_ctx *ctx, const hd_dataset_request *request) {
  hd_split *split = data->split;
  for (int s = 0; s < parts_of(data); s++)
    if (request->skip && hd__split_decodes(&split[s]) && !split[s].masked) /* a mask belongs to its picture */
      HD_TRY(hd__skips_find(&data->skips[s], &split[s], ctx));
  HD_TRY(keep_decoded(data, ctx, request->cache));
  HD_TRY(settle_late_labels(data, ctx, request));
  if (data->shared)
    split[1] = split[0];
  return HD_OK;
}

/* ---- Arrays of the program ---- */

/* The checksums of labels and weights that the program lent, 0 for weights of the data set's own. */
static hd_status sum_lent(uint64_t sum[2], hd_ctx *ctx, const hd_dataset *data, int s) {
  const hd_split *split = &data->split[s];
  const bool weighs = split->weights && !data->memory[s].weights;
  sum[0] = 0;
  sum[1] = split->borrowed && weighs ? hd__xxh3(split->weights, (size_t)split->count * sizeof *split->weights) : 0;
  return split->borrowed ? hd__labels_checksum(&sum[0], ctx, split) : HD_OK;
}

/* Rows that are normalised by column are a copy. */
hd_status hd__dataset_check_unchanged(const hd_dataset *data, hd_ctx *ctx) {
  for (int s = 0; s < parts_of(data); s++) {
    uint64_t now[2];
    HD_TRY(sum_lent(now, ctx, data, s));
    const bool same = !data->split[s].borrowed || data->rows[s] ||
                      hd__samples_checksum(&data->split[s]) == data->statistics.checksum[2 * s];
    if (!same || now[0] != data->lent[s][0] || (now[1] != data->lent[s][1] && !data->memory[s].weights))
      return hd__fail(ctx, HD_E_USAGE,
                      "data set '%s': the %s arrays changed while the run read them, so its weights are those of no "
                      "data; give copies, or change them between runs",
                      data->name, s ? "test" : "training");
  }
  return HD_OK;
}

hd_status hd__dataset_finish(hd_dataset *data, hd_ctx *ctx, const hd_dataset_request *request) {
  hd_split *split = data->split;
  HD_TRY(hd__dataset_take_fold(data, ctx));
  HD_TRY(hd__dataset_check_names(data, ctx));
  if (request->classes.count > 0 && !data->read_later)
    HD_TRY(hd__dataset_match_classes(data->labels, data, ctx, data->name, &request->classes, request->ignored));
  HD_TRY(check_split(ctx, data->name, &split[0]));
  HD_TRY(check_split(ctx, data->name, &split[1]));
  HD_TRY(check_alike(ctx, data->name, &split[0], &split[1]));
  for (int s = 0; s < 2; s++)
    if (split[s].masked)
      HD_TRY(check_masks(ctx, data->name, &split[s], s ? "test" : "training"));
  HD_TRY(hd__weights_check(ctx, data->name, &split[0], "training set"));
  HD_TRY(hd__weights_check(ctx, data->name, &split[1], "test set"));
  HD_TRY(prepare_decoding(data, ctx, request));
  HD_TRY(choose_normalize(data, ctx, request));
  HD_TRY(find_features(data, ctx, request));
  HD_TRY(hd__statistics_measure(&data->statistics, ctx, &split[0], &split[1]));
  for (int s = 0; s < 2; s++)
    if (data->memory[s].numbers && !request->first_rules) /* which differ, but not as floats */
      data->statistics.checksum[2 * s] =
          hd__xxh3(data->memory[s].numbers, (size_t)(split[s].count * split[s].width) * sizeof(double));
  for (int s = 0; s < 2; s++)
    HD_TRY(sum_lent(data->lent[s], ctx, data, s));
  HD_TRY(normalise_columns(data, ctx));
  return hd__dataset_note_classes(data, ctx, data->name);
}
