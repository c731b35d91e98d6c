/* Opening data sets: the table of formats, and limits for every format; see dataset.h. */
#include "data/formats/dataset.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/event_log.h"
#include "base/nearest.h"
#include "data/formats/format.h"
#include "data/loader/data_statistics.h"
#include "data/loader/sample_cache.h"
#include "data/loader/skipped_samples.h"
#include "platform/file.h"
#include "platform/cgroup.h"

struct hd_data {
  char *name;
  hd_opened opened;
  hd_skips *skips[2];
  hd_cache cache[2];
  hd_survey survey;
  hd_normalize_choice normalize;
  float *rows[2];     /* normalised by columns */
  int32_t *labels[2]; /* with the numbers of a run's classes, or NULL */
};

/* The first format that accepts a name or path opens it. */
static const hd_format *const formats[] = {
    &hd__format_custom, &hd__format_digits, &hd__format_random, &hd__format_named, &hd__format_idx,
    &hd__format_cifar,  &hd__format_npz,    &hd__format_npy,    &hd__format_csv,   &hd__format_image_folder};

/* What --data may be, for a name that is none of it: a file that no reader takes, or a mistyped name. */
static hd_status refuse_name(hd_ctx *ctx, const char *name) {
  static const char *const known[] = {"digits", "mnist", "fashion", "cifar10", "cifar100"};
  hd_nearest nearest = {.word = name};
  char remedy[64] = "check the path";
  const size_t length = strlen(name);
  if (length > 4 && !strcasecmp(name + length - 4, ".tsv") && hd__file_exists(name))
    return hd__fail(ctx, HD_E_IO, "%s: expected a .csv file with commas, found one separated by tabs; write commas",
                    name);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    hd__nearest_try(&nearest, known[i]);
  if (nearest.name)
    snprintf(remedy, sizeof remedy, "did you mean %s?", nearest.name);
  return hd__fail(ctx, HD_E_IO,
                  "expected digits, mnist, fashion, cifar10, cifar100, random:CxHxW[:CLASSES], a data folder, an .npz "
                  "or a .csv file as --data, found '%s', which is none of these; %s",
                  name, remedy);
}

static hd_status find_format(const hd_format **out, hd_ctx *ctx, const char *name) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i]->takes(ctx, name)) {
      *out = formats[i];
      return HD_OK;
    }
  if (hd__file_is_folder(name))
    return hd__fail(
        ctx, HD_E_IO,
        "%s: expected a folder of IDX files (train-images-idx3-ubyte, ...), of CIFAR's binary files, of NPY files "
        "(x_train.npy, ...), train.csv and test.csv, or class folders of pictures, found none of them; check the path",
        name);
  return refuse_name(ctx, name);
}

/* Limits of every data set: sample numbers have 32 bits, kernels limit the channels. */
static hd_status check_split(hd_ctx *ctx, const char *name, const hd_dataset *s) {
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

static hd_status check_alike(hd_ctx *ctx, const char *name, const hd_dataset *a, const hd_dataset *b) {
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
  return HD_OK;
}

/* Splits with samples of their own. */
static int parts_of(const hd_data *data) { return data->opened.shared ? 1 : 2; }

/* Decodes a split once into the cache, if it needs decoding and fits. */
static hd_status keep_decoded(hd_data *data, hd_ctx *ctx, hd_cache_choice kind) {
  enum { SHARE = 4 };
  hd_dataset *split = data->opened.split;
  int64_t bytes = 0;
  for (int s = 0; s < parts_of(data); s++)
    bytes += hd__dataset_resident(&split[s]) ? 0 : hd__cache_bytes(&split[s]);
  const bool fits = bytes <= hd__memory_budget() / SHARE;
  for (int s = 0; s < parts_of(data); s++) {
    if (hd__dataset_resident(&split[s]) || kind == HD_CACHE_NONE)
      continue;
    if (kind == HD_CACHE_DISK && split[s].key)
      HD_TRY(hd__cache_on_disk(&data->cache[s], &split[s], ctx));
    else if (fits)
      HD_TRY(hd__cache_in_memory(&data->cache[s], &split[s], ctx));
  }
  return HD_OK;
}

/* ---- Rows of numbers ---- */

static bool has_rows(const hd_dataset *split) { return split->flat && split->floats && split->channels == 1; }

static hd_status choose_normalize(hd_data *data, hd_ctx *ctx, const hd_data_request *request) {
  const bool rows = has_rows(&data->opened.split[0]) && has_rows(&data->opened.split[1]);
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
static hd_status take_statistics(hd_data *data, hd_ctx *ctx, const hd_data_request *request) {
  hd_features *f = &data->opened.features;
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
static hd_status find_features(hd_data *data, hd_ctx *ctx, const hd_data_request *request) {
  hd_opened *o = &data->opened;
  const bool given = request->features != NULL, columns = data->normalize == HD_NORMALIZE_COLUMN;
  if (o->features.count == 0 && given && columns)
    HD_TRY(hd__features_copy(&o->features, ctx, request->features));
  else if (o->features.count == 0 && columns)
    HD_TRY(hd__features_numbers(&o->features, ctx, o->split[0].width));
  if (o->features.count == 0)
    return HD_OK;
  if (o->features.count != o->split[0].width)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected %d numbers per row as in training, found %d; give rows of that length", data->name,
                    o->features.count, o->split[0].width);
  if (!given)
    HD_TRY(hd__features_measure(&o->features, ctx, o->resident[0].numbers, o->split[0].floats, o->split[0].count));
  if (request->mean && columns)
    HD_TRY(take_statistics(data, ctx, request));
  for (int s = 0; s < 2; s++)
    if (o->resident[s].floats)
      hd__features_fill(o->resident[s].numbers, o->resident[s].floats, &o->features, o->split[s].count);
  return HD_OK;
}

/* Rows are normalised in memory of their own: the reader's may be a file. */
static hd_status normalise_columns(hd_data *data, hd_ctx *ctx) {
  hd_opened *o = &data->opened;
  for (int s = 0; s < parts_of(data) && data->normalize == HD_NORMALIZE_COLUMN; s++) {
    hd_dataset *split = &o->split[s];
    const int64_t elems = split->count * split->width;
    HD_TRY(
        HD_NEW_RAW(data->rows[s], elems, ctx, "%s: out of memory for %lld rows", data->name, (long long)split->count));
    memcpy(data->rows[s], split->floats, (size_t)elems * sizeof *data->rows[s]);
    hd__features_apply(data->rows[s], &o->features, o->resident[s].numbers, split->count);
    split->floats = data->rows[s];
    hd__free(o->resident[s].floats);
    o->resident[s].floats = NULL;
  }
  if (o->shared)
    o->split[1].floats = o->split[0].floats;
  for (int s = 0; s < 2; s++) {
    hd__free(o->resident[s].numbers);
    o->resident[s].numbers = NULL;
  }
  for (int c = 0; c < HD_DATA_MAX_CHANNELS && data->normalize != HD_NORMALIZE_CHANNEL; c++) {
    data->survey.mean[c] = 0;
    data->survey.std[c] = 1;
  }
  return HD_OK;
}

/* Finds unreadable samples, and decodes the others if decoded samples are kept. */
static hd_status prepare_decoding(hd_data *data, hd_ctx *ctx, const hd_data_request *request) {
  hd_dataset *split = data->opened.split;
  for (int s = 0; s < parts_of(data); s++)
    if (request->skip && !hd__dataset_resident(&split[s]))
      HD_TRY(hd__skips_find(&data->skips[s], &split[s], ctx));
  HD_TRY(keep_decoded(data, ctx, request->cache));
  if (data->opened.shared)
    split[1] = split[0];
  return HD_OK;
}

static hd_status open_all(hd_data *data, hd_ctx *ctx, const hd_data_request *request) {
  hd_dataset *split = data->opened.split;
  data->name = hd__strdup(request->name);
  HD_TRY(HD_ALLOCATED(data->name, ctx, "out of memory for the data set"));
  data->opened.first_rules = request->first_rules;
  data->opened.fold = request->fold;
  data->opened.whole = request->whole;
  HD_TRY(find_format(&data->opened.format, ctx, request->name));
  HD_TRY(data->opened.format->open(&data->opened, ctx, request));
  HD_TRY(hd__data_fold(&data->opened, ctx, data->name));
  if (request->classes.count > 0)
    HD_TRY(hd__match_classes(data->labels, &data->opened, ctx, data->name, &request->classes, request->ignored));
  HD_TRY(check_split(ctx, data->name, &split[0]));
  HD_TRY(check_split(ctx, data->name, &split[1]));
  HD_TRY(check_alike(ctx, data->name, &split[0], &split[1]));
  HD_TRY(prepare_decoding(data, ctx, request));
  HD_TRY(choose_normalize(data, ctx, request));
  HD_TRY(find_features(data, ctx, request));
  HD_TRY(hd__survey(&data->survey, ctx, &split[0], &split[1]));
  for (int s = 0; s < 2; s++)
    if (data->opened.resident[s].numbers && !request->first_rules) /* which differ, but not as floats */
      data->survey.checksum[2 * s] =
          hd__xxh3(data->opened.resident[s].numbers, (size_t)(split[s].count * split[s].width) * sizeof(double));
  HD_TRY(normalise_columns(data, ctx));
  return hd__note_classes(&data->opened, ctx, data->name);
}

hd_status hd__data_open(hd_data **out, hd_ctx *ctx, const hd_data_request *request) {
  hd_data *data = *out = hd__calloc(1, sizeof *data);
  HD_TRY(HD_ALLOCATED(data, ctx, "out of memory for the data set"));
  hd_status status = open_all(data, ctx, request);
  if (status == HD_OK)
    HD_LOG(DATA, "%s opened, %s: %lld training and %lld test samples", data->name, data->opened.format->name,
           (long long)data->opened.split[0].count, (long long)data->opened.split[1].count);
  return HD_CREATED(status, out, hd__data_close);
}

void hd__data_close(hd_data *data) {
  if (!data)
    return;
  hd__opened_fini(&data->opened);
  for (int s = 0; s < 2; s++) {
    hd__cache_fini(&data->cache[s]);
    hd__skips_destroy(data->skips[s]);
    hd__free(data->rows[s]);
    hd__free(data->labels[s]);
  }
  hd__free(data->name);
  hd__free(data);
}

const hd_dataset *hd__data_train(const hd_data *data) { return &data->opened.split[0]; }
const hd_dataset *hd__data_test(const hd_data *data) { return &data->opened.split[1]; }
const char *hd__data_name(const hd_data *data) { return data->name; }
const char *hd__data_format(const hd_data *data) { return data->opened.format->name; }
bool hd__data_has_first_rules(const hd_data *data) { return data->opened.first_rules; }
const char *const *hd__data_notes(const hd_data *data) { return (const char *const *)data->opened.note; }
const double *hd__data_mean(const hd_data *data) { return data->survey.mean; }
const double *hd__data_std(const hd_data *data) { return data->survey.std; }
const uint64_t *hd__data_checksums(const hd_data *data) { return data->survey.checksum; }
hd_normalize_choice hd__data_normalize(const hd_data *data) { return data->normalize; }

const hd_features *hd__data_features(const hd_data *data) {
  return data->opened.features.count > 0 ? &data->opened.features : NULL;
}

bool hd__data_is_whole(const hd_data *data) { return data->opened.shared; }

bool hd__data_is_table(const hd_data *data) { return data->opened.format == &hd__format_csv; }
bool hd__data_is_folder(const hd_data *data) { return data->opened.format == &hd__format_image_folder; }
