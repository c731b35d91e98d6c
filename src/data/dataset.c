/* Finding, opening and checking data sets; see dataset.h. */
#include "data/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digest.h"
#include "base/philox.h"
#include "data/digits.h"
#include "data/idx.h"

struct hd_data {
  char *name;
  hd_dataset train, test;
  hd_idx file[HD_DATA_PARTS]; /* training images, training labels, test images, test labels */
  uint8_t *drawn;             /* digits, random */
  float *targets[2];          /* of training and test, in this machine's byte order; NULL with labels */
  double mean[HD_DATA_MAX_CHANNELS], std[HD_DATA_MAX_CHANNELS];
  uint64_t checksum[HD_DATA_PARTS];
};

static const char *const parts[HD_DATA_PARTS] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                                 "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

/* Finds folder/part as published, with a dot for the last hyphen but one, or with .gz behind. Returns 0 if it is
 * nowhere. */
static int find_part(char out[HD_PATH_BYTES], const char *folder, const char *part) {
  char dotted[64];
  snprintf(dotted, sizeof dotted, "%s", part);
  *strstr(dotted, "-idx") = '.';
  const char *const form[] = {part, dotted};
  for (int i = 0; i < 2; i++)
    for (int gzip = 0; gzip < 2; gzip++)
      if (snprintf(out, HD_PATH_BYTES, "%s/%s%s", folder, form[i], gzip ? ".gz" : "") < HD_PATH_BYTES &&
          hd__file_exists(out))
        return 1;
  return 0;
}

static int holds_data(const char *folder) {
  char path[HD_PATH_BYTES];
  return find_part(path, folder, parts[0]);
}

/* folder, folder/NAME, folder/NAME/raw, as torchvision lays it out (MNIST, FashionMNIST) and as we do. */
static int find_below(char out[HD_PATH_BYTES], const char *folder, const char *name) {
  const char *torchvision = !strcmp(name, "mnist") ? "MNIST" : "FashionMNIST";
  const char *const form[] = {"%s/%s", "%s/%s/raw"};
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 2; k++)
      if (snprintf(out, HD_PATH_BYTES, i ? form[1] : form[0], folder, k ? torchvision : name) < HD_PATH_BYTES &&
          holds_data(out))
        return 1;
  snprintf(out, HD_PATH_BYTES, "%s", folder);
  return holds_data(out);
}

static hd_status find_named(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *name, const char *data_dir) {
  char cache[HD_PATH_BYTES] = "";
  const char *home = getenv("HOME"), *env = getenv("HEDDLE_DATA");
  if (home)
    snprintf(cache, sizeof cache, "%s/.cache/heddle", home);
  const char *const folder[] = {data_dir, env, cache};
  for (int i = 0; i < 3; i++)
    if (folder[i] && *folder[i] && find_below(out, folder[i], name))
      return HD_OK;
  return hd__fail(ctx, HD_E_IO,
                  "expected the data set '%s' under --data-dir, $HEDDLE_DATA or %s, found none; put %s, %s, %s and %s "
                  "(plain or .gz) into %s/%s",
                  name, *cache ? cache : "~/.cache/heddle", parts[0], parts[1], parts[2], parts[3],
                  *cache ? cache : "~/.cache/heddle", name);
}

static hd_status check_labels(hd_ctx *ctx, const char *path, const hd_idx *labels, int classes, int ignored) {
  for (int64_t i = 0; i < labels->length; i++)
    if (labels->bytes[i] >= classes && labels->bytes[i] != ignored)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected labels from 0 to %d, found %d at index %lld; fetch the file again, or give a "
                      "cross_entropy loss 'ignore_index: %d'",
                      path, classes - 1, labels->bytes[i], (long long)i, labels->bytes[i]);
  return HD_OK;
}

/* Floats from their big-endian bytes. */
static hd_status decode_targets(float **out, hd_ctx *ctx, const char *path, const hd_idx *file) {
  int64_t count = file->length / 4, outputs = file->rank == 2 ? file->size[1] : 1;
  float *target = *out = hd__malloc((size_t)count * sizeof *target);
  if (!target)
    return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory for the targets", path);
  for (int64_t i = 0; i < count; i++) {
    const uint8_t *b = file->bytes + 4 * i;
    uint32_t bits = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    memcpy(&target[i], &bits, sizeof bits);
    if (!isfinite(target[i]))
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected finite targets, found %s at index %lld%s; mend the file", path,
                      isnan(target[i]) ? "NaN" : "infinity", (long long)(i / outputs),
                      outputs > 1 ? " (one of several outputs)" : "");
  }
  return HD_OK;
}

/* Class labels or targets: the file's type says which, its name may. */
static hd_status find_labels(char out[HD_PATH_BYTES], hd_ctx *ctx, const char *folder, int split) {
  static const char *const floats[2][2] = {{"train-labels-idx1-float", "train-labels-idx2-float"},
                                           {"t10k-labels-idx1-float", "t10k-labels-idx2-float"}};
  const char *const name[3] = {parts[2 * split + 1], floats[split][0], floats[split][1]};
  char path[HD_PATH_BYTES];
  int found = 0;
  for (int i = 0; i < 3; i++) {
    if (!find_part(path, folder, name[i]))
      continue;
    if (found++)
      return hd__fail(ctx, HD_E_FORMAT, "%s: expected one file of labels, found %s too; move one elsewhere", out, path);
    snprintf(out, HD_PATH_BYTES, "%s", path);
  }
  if (!found)
    return hd__fail(
        ctx, HD_E_IO,
        "%s: expected the file %s (plain or .gz; with float targets %s), found none; put the four IDX files "
        "there",
        folder, name[0], name[1]);
  return HD_OK;
}

static hd_status open_parts(hd_data *data, hd_ctx *ctx, const char *folder, char path[HD_DATA_PARTS][HD_PATH_BYTES]) {
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    if (i % 2) {
      HD_TRY(find_labels(path[i], ctx, folder, i / 2));
      HD_TRY(hd__idx_read_labels(&data->file[i], ctx, path[i]));
      continue;
    }
    if (!find_part(path[i], folder, parts[i]))
      return hd__fail(ctx, HD_E_IO, "%s: expected the file %s (plain or .gz), found none; put the four IDX files there",
                      folder, parts[i]);
    HD_TRY(hd__idx_read(&data->file[i], ctx, path[i], 3));
  }
  return HD_OK;
}

/* One split out of its two files. */
static hd_status open_split(hd_data *data, hd_ctx *ctx, char path[HD_DATA_PARTS][HD_PATH_BYTES], int split,
                            int ignored) {
  enum { CLASSES = 10, MOST_OUTPUTS = 1 << 20 };
  const hd_idx *images = &data->file[2 * split], *labels = &data->file[2 * split + 1];
  if (images->size[0] != labels->size[0])
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected %lld labels, one per image, found %lld; the files do not belong together",
                    path[2 * split + 1], (long long)images->size[0], (long long)labels->size[0]);
  if (images->size[1] > 65535 || images->size[2] > 65535)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected images of at most 65535 pixels a side, found %lldx%lld",
                    path[2 * split], (long long)images->size[1], (long long)images->size[2]);
  hd_dataset *out = split ? &data->test : &data->train;
  *out = (hd_dataset){.images = images->bytes,
                      .count = images->size[0],
                      .channels = 1,
                      .height = (int)images->size[1],
                      .width = (int)images->size[2]};
  if (labels->elem_bytes == 1) {
    out->labels = labels->bytes;
    out->classes = CLASSES;
    return check_labels(ctx, path[2 * split + 1], labels, CLASSES, ignored);
  }
  if (labels->rank == 2 && labels->size[1] > MOST_OUTPUTS)
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected at most %d targets a sample, found %lld", path[2 * split + 1],
                    MOST_OUTPUTS, (long long)labels->size[1]);
  out->outputs = labels->rank == 2 ? (int)labels->size[1] : 1;
  HD_TRY(decode_targets(&data->targets[split], ctx, path[2 * split + 1], labels));
  out->targets = data->targets[split];
  return HD_OK;
}

static hd_status check_alike(const hd_data *data, hd_ctx *ctx, char path[HD_DATA_PARTS][HD_PATH_BYTES]) {
  const hd_dataset *a = &data->train, *b = &data->test;
  if (a->height != b->height || a->width != b->width)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected test images of %dx%d as in training, found %dx%d; the files do not belong together",
                    path[2], a->height, a->width, b->height, b->width);
  if (a->outputs == b->outputs)
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT,
                  "%s: expected %d float targets a sample as in training (0: class labels), found %d; the files do not "
                  "belong together",
                  path[3], a->outputs, b->outputs);
}

static hd_status open_folder(hd_data *data, hd_ctx *ctx, const char *folder, int ignored) {
  char(*path)[HD_PATH_BYTES] = hd__malloc((size_t)HD_DATA_PARTS * sizeof *path);
  if (!path)
    return hd__fail(ctx, HD_E_NOMEM, "%s: out of memory while opening", folder);
  hd_status status = open_parts(data, ctx, folder, path);
  for (int split = 0; split < 2 && status == HD_OK; split++)
    status = open_split(data, ctx, path, split, ignored);
  if (status == HD_OK)
    status = check_alike(data, ctx, path);
  hd__free(path);
  return status;
}

static hd_status draw_digits(hd_data *data, hd_ctx *ctx) {
  enum { TRAIN = 60000, TEST = 10000, ALL = TRAIN + TEST, PIXELS = 28 * 28, BLOCK = 250 };
  hd_digits *digits;
  HD_TRY(hd__digits_create(&digits, ctx));
  data->drawn = hd__malloc((size_t)ALL * (PIXELS + 1));
  if (!data->drawn) {
    hd__digits_destroy(digits);
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the digits");
  }
  uint8_t *images = data->drawn, *labels = data->drawn + (size_t)ALL * PIXELS;
#pragma omp parallel for schedule(dynamic)
  for (int block = 0; block < ALL / BLOCK; block++) {
    int first = block * BLOCK, split = first >= TRAIN;
    hd__digits_render(digits, images + (size_t)first * PIXELS, labels + first, split, split ? first - TRAIN : first,
                      BLOCK);
  }
  hd__digits_destroy(digits);
  data->train = (hd_dataset){images, labels, TRAIN, 1, 28, 28, 10, NULL, 0};
  data->test = (hd_dataset){images + (size_t)TRAIN * PIXELS, labels + TRAIN, TEST, 1, 28, 28, 10, NULL, 0};
  return HD_OK;
}

/* "random:CxHxW": noise with labels to match, for measurements on samples of any shape. */
static hd_status draw_random(hd_data *data, hd_ctx *ctx, const char *name) {
  enum { TRAIN = 8192, TEST = 1024, ALL = TRAIN + TEST, CLASSES = 10, MOST_SIDE = 256 };
  int c, h, w, end = 0;
  if (sscanf(name, "random:%1d%*1[x]%3d%*1[x]%3d%n", &c, &h, &w, &end) != 3 || name[end] || c < 1 ||
      c > HD_DATA_MAX_CHANNELS || h < 1 || h > MOST_SIDE || w < 1 || w > MOST_SIDE)
    return hd__fail(ctx, HD_E_USAGE,
                    "--data random: expects 1 to %d channels and sides of 1 to %d, found '%s'; write "
                    "for example random:3x32x32",
                    HD_DATA_MAX_CHANNELS, MOST_SIDE, name);
  const int64_t sample = (int64_t)c * h * w, bytes = ALL * (sample + 1);
  data->drawn = hd__malloc((size_t)(bytes + 16));
  if (!data->drawn)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for random samples");
  for (int64_t at = 0; at < bytes; at += 16) {
    const uint32_t counter[4] = {(uint32_t)(at / 16)};
    uint32_t word[4];
    hd__philox(word, 0, counter);
    for (int i = 0; i < 16; i++)
      data->drawn[at + i] = (uint8_t)(word[i / 4] >> (i % 4 * 8));
  }
  uint8_t *labels = data->drawn + ALL * sample;
  for (int i = 0; i < ALL; i++)
    labels[i] %= CLASSES;
  data->train = (hd_dataset){data->drawn, labels, TRAIN, c, h, w, CLASSES, NULL, 0};
  data->test = (hd_dataset){data->drawn + TRAIN * sample, labels + TRAIN, TEST, c, h, w, CLASSES, NULL, 0};
  return HD_OK;
}

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t words16 __attribute__((vector_size(32)));
typedef uint32_t sums16 __attribute__((vector_size(64)));

/* Adds bytes and their squares, sixteen side by side, in blocks that fit 32 bits. */
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

void hd__data_statistics(double *mean, double *std, const hd_dataset *split, int channel) {
  int64_t plane = (int64_t)split->height * split->width;
  uint64_t sum = 0, squares = 0;
  if (split->channels == 1) {
    int64_t block = 1 << 20, all = split->count * plane, blocks = (all + block - 1) / block;
#pragma omp parallel for
    for (int64_t b = 0; b < blocks; b++) {
      uint64_t s = 0, q = 0;
      sum_bytes(split->images + b * block, b + 1 < blocks ? block : all - b * block, &s, &q);
      /* Integers: any order gives the same. Not a reduction clause, for which clang exports a lock of its own name. */
#pragma omp atomic
      sum += s;
#pragma omp atomic
      squares += q;
    }
  } else {
    for (int64_t n = 0; n < split->count; n++)
      sum_bytes(split->images + (n * split->channels + channel) * plane, plane, &sum, &squares);
  }
  double count = (double)(split->count * plane), average = (double)sum / count / 255;
  double variance = (double)squares / count / (255.0 * 255) - average * average;
  *mean = round4(average);
  *std = round4(sqrt(variance > 0 ? variance : 0));
  if (*std == 0)
    *std = 1; /* a constant image has nothing to scale */
}

static void measure(hd_data *data) {
  const hd_dataset *split[2] = {&data->train, &data->test};
  for (int c = 0; c < data->train.channels; c++)
    hd__data_statistics(&data->mean[c], &data->std[c], &data->train, c);
#pragma omp parallel for schedule(dynamic, 1)
  for (int i = 0; i < HD_DATA_PARTS; i++) {
    const hd_dataset *s = split[i / 2];
    size_t image = (size_t)s->channels * (size_t)s->height * (size_t)s->width;
    if (s->targets && i % 2)
      data->checksum[i] = hd__xxh3(data->file[i].bytes, (size_t)data->file[i].length);
    else
      data->checksum[i] = hd__xxh3(i % 2 ? s->labels : s->images, (size_t)s->count * (i % 2 ? 1 : image));
  }
}

static hd_status open_any(hd_data *data, hd_ctx *ctx, const char *name, const char *data_dir, int ignored) {
  char folder[HD_PATH_BYTES];
  if (!strcmp(name, "digits"))
    return draw_digits(data, ctx);
  if (!strncmp(name, "random:", 7))
    return draw_random(data, ctx, name);
  if (!strcmp(name, "mnist") || !strcmp(name, "fashion")) {
    HD_TRY(find_named(folder, ctx, name, data_dir));
    return open_folder(data, ctx, folder, ignored);
  }
  if (!hd__file_is_folder(name))
    return hd__fail(ctx, HD_E_IO,
                    "expected digits, mnist, fashion, random:CxHxW or a folder of IDX files as --data, found '%s', "
                    "which is none; check the path",
                    name);
  return open_folder(data, ctx, name, ignored);
}

hd_status hd__data_open(hd_data **out, hd_ctx *ctx, const char *name_or_path, const char *data_dir, int ignored) {
  *out = NULL;
  hd_data *data = hd__calloc(1, sizeof *data);
  if (!data)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory for the data set");
  data->name = hd__strdup(name_or_path);
  hd_status status = data->name ? open_any(data, ctx, name_or_path, data_dir, ignored)
                                : hd__fail(ctx, HD_E_NOMEM, "out of memory for the data set");
  if (status != HD_OK) {
    hd__data_close(data);
    return status;
  }
  measure(data);
  *out = data;
  return HD_OK;
}

void hd__data_close(hd_data *data) {
  if (!data)
    return;
  for (int i = 0; i < HD_DATA_PARTS; i++)
    hd__idx_fini(&data->file[i]);
  hd__free(data->drawn);
  for (int split = 0; split < 2; split++)
    hd__free(data->targets[split]);
  hd__free(data->name);
  hd__free(data);
}

const hd_dataset *hd__data_train(const hd_data *data) { return &data->train; }
const hd_dataset *hd__data_test(const hd_data *data) { return &data->test; }
const char *hd__data_name(const hd_data *data) { return data->name; }
const double *hd__data_mean(const hd_data *data) { return data->mean; }
const double *hd__data_std(const hd_data *data) { return data->std; }
const uint64_t *hd__data_checksums(const hd_data *data) { return data->checksum; }
