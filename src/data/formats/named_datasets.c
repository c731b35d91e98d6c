/* Data sets by name: published ones in the folders that may hold them, and those without files.
 *
 * Places are searched in this order: --data-dir, $HEDDLE_DATA, ~/.cache/heddle (where heddle get stores sets),
 * and Debian's /usr/share/datasets. In each a set may lie in a folder of its name, of torchvision's, of its
 * archive's, or in the place itself. */
#include "data/formats/format.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/digits/digits.h"
#include "data/formats/idx.h"
#include "platform/parallel_for.h"

enum { MOST_FOLDERS = 6, PLACES = 4 };

typedef struct published {
  const char *name, *alias;
  const hd_format *format;
  const char *first, *files; /* the file that identifies its folder; the files of the set */
  const char *package;       /* in Debian; "" for none */
  const char *folders[MOST_FOLDERS + 1];
} published;

static const char idx_files[] = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                                "t10k-labels-idx1-ubyte (plain or .gz)";

#define IDX(name, alias, package, ...)                                                                                 \
  {                                                                                                                    \
    name, alias, &hd__format_idx, HD_IDX_TRAIN_IMAGES, idx_files, package, { __VA_ARGS__ }                             \
  }
#define CIFAR(name, alias, first, files, ...)                                                                          \
  {                                                                                                                    \
    name, alias, &hd__format_cifar, first, files, "", { __VA_ARGS__ }                                                  \
  }

/* clang-format off */
static const published sets[] = {
    IDX("mnist", "", "", "mnist", "MNIST", "mnist/raw", "MNIST/raw", "."),
    IDX("fashion", "fashion-mnist", ", or install dataset-fashion-mnist",
        "fashion", "FashionMNIST", "fashion/raw", "FashionMNIST/raw", "fashion-mnist", "."),
    CIFAR("cifar10", "cifar-10", "data_batch_1.bin", "data_batch_1.bin to data_batch_5.bin and test_batch.bin",
          "cifar-10-batches-bin", "cifar10", "cifar10/cifar-10-batches-bin", "."),
    CIFAR("cifar100", "cifar-100", "train.bin", "train.bin and test.bin",
          "cifar-100-binary", "cifar100", "cifar100/cifar-100-binary", "."),
};
/* clang-format on */

static const published *set_of(const char *name) {
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (!strcmp(name, sets[i].name) || (*name && !strcmp(name, sets[i].alias)))
      return &sets[i];
  return NULL;
}

bool hd__data_is_published(const char *name) { return set_of(name) != NULL; }

/* IDX files may be packed, or have a dot in their names. */
static bool holds(const published *set, const char *folder) {
  char path[HD_PATH_BYTES];
  if (set->format == &hd__format_idx)
    return hd__idx_find(path, folder, set->first);
  return snprintf(path, sizeof path, "%s/%s", folder, set->first) < HD_PATH_BYTES && hd__file_exists(path);
}

static bool find_below(char out[HD_PATH_BYTES], const published *set, const char *place) {
  for (int i = 0; set->folders[i]; i++) {
    const bool itself = !strcmp(set->folders[i], ".");
    const int length = snprintf(out, HD_PATH_BYTES, "%s%s%s", place, itself ? "" : "/", itself ? "" : set->folders[i]);
    if (length < HD_PATH_BYTES && holds(set, out))
      return true;
  }
  return false;
}

static hd_status find(char out[HD_PATH_BYTES], hd_ctx *ctx, const published *set, const char *data_dir) {
  char cache[HD_PATH_BYTES] = "", system[HD_PATH_BYTES];
  const char *home = getenv("HOME"), *root = getenv("HEDDLE_SYSROOT");
  if (home)
    snprintf(cache, sizeof cache, "%s/.cache/heddle", home);
  snprintf(system, sizeof system, "%s/usr/share/datasets", root ? root : "");
  const char *const place[PLACES] = {data_dir, getenv("HEDDLE_DATA"), cache, system};
  for (int i = 0; i < PLACES; i++)
    if (place[i] && *place[i] && find_below(out, set, place[i]))
      return HD_OK;
  const char *shown = *cache ? cache : "~/.cache/heddle";
  return hd__fail(ctx, HD_E_IO,
                  "expected the data set '%s' under --data-dir, $HEDDLE_DATA, %s or %s, found none; run heddle get %s, "
                  "or put %s into %s/%s%s",
                  set->name, shown, system, set->name, set->files, shown, set->folders[0], set->package);
}

static bool takes(hd_ctx *ctx, const char *name) { return hd__data_is_published(name); }

static hd_status open_named(hd_opened *out, hd_ctx *ctx, const hd_data_request *request) {
  const published *set = set_of(request->name);
  char folder[HD_PATH_BYTES];
  hd_data_request there = *request;
  HD_TRY(find(folder, ctx, set, request->data_dir));
  there.name = folder;
  out->format = set->format;
  return set->format->open(out, ctx, &there);
}

const hd_format hd__format_named = {"a published data set", takes, open_named};

/* ---- Data sets without files: the built-in digits, and noise of any shape for benchmarks ---- */

/* Allocates and describes both splits, consecutive in memory. */
static hd_status make_room(hd_resident_samples **all, hd_opened *out, hd_ctx *ctx, const int shape[3], int classes,
                           int64_t train, int64_t test) {
  enum { SLACK_BYTES = 16 };
  const int64_t sample = (int64_t)shape[0] * shape[1] * shape[2];
  hd_resident_samples *to = *all = &out->resident[0];
  to->images = hd__malloc_scattered((size_t)((train + test) * (sample + 1) + SLACK_BYTES)); /* labels as bytes after the
                                                                                               samples */
  to->labels = hd__malloc((size_t)(train + test) * sizeof *to->labels);
  HD_TRY(
      HD_ALLOCATED(to->images && to->labels, ctx, "out of memory for %lld drawn samples", (long long)(train + test)));
  for (int i = 0; i < 2; i++)
    out->split[i] = (hd_dataset){.count = i ? test : train,
                                 .channels = shape[0],
                                 .height = shape[1],
                                 .width = shape[2],
                                 .images = to->images + (i ? train * sample : 0),
                                 .labels = to->labels + (i ? train : 0),
                                 .classes = classes};
  return HD_OK;
}

static bool takes_digits(hd_ctx *ctx, const char *name) { return !strcmp(name, "digits"); }

enum { DIGITS = HD_DIGITS_TRAIN + HD_DIGITS_TEST, DIGITS_BLOCK = 250 };

typedef struct digits {
  uint8_t *images, *labels;
} digits;

static void draw_blocks(void *arg, int64_t from, int64_t to) {
  enum { PIXELS = HD_DIGITS_SIDE * HD_DIGITS_SIDE };
  const digits *d = arg;
  for (int64_t block = from; block < to; block++) {
    const int first = (int)block * DIGITS_BLOCK, split = first >= HD_DIGITS_TRAIN;
    hd__digits_render(d->images + (size_t)first * PIXELS, d->labels + first, split,
                      split ? first - HD_DIGITS_TRAIN : first, DIGITS_BLOCK);
  }
}

static hd_status draw_digits(hd_opened *out, hd_ctx *ctx, const hd_data_request *request) {
  enum { PIXELS = HD_DIGITS_SIDE * HD_DIGITS_SIDE, CLASSES = 10 };
  const int shape[3] = {1, HD_DIGITS_SIDE, HD_DIGITS_SIDE};
  hd_resident_samples *d;
  HD_TRY(make_room(&d, out, ctx, shape, CLASSES, HD_DIGITS_TRAIN, HD_DIGITS_TEST));
  digits drawn = {d->images, d->images + (size_t)DIGITS * PIXELS};
  hd__parallel_for(DIGITS / DIGITS_BLOCK, 1, draw_blocks, &drawn);
  for (int i = 0; i < DIGITS; i++)
    d->labels[i] = drawn.labels[i];
  return HD_OK;
}

static bool takes_random(hd_ctx *ctx, const char *name) { return !strncmp(name, "random:", 7); }

/* "3x32x32"; with ":2" appended two classes instead of ten. */
static hd_status read_shape(int shape[3], int *classes, hd_ctx *ctx, const char *name) {
  enum { MOST_SIDE = 256, MOST_CLASSES = 1000 };
  int *c = &shape[0], *h = &shape[1], *w = &shape[2], end = 0, behind = 0;
  *classes = 10;
  const bool is_shape = sscanf(name, "random:%1d%*1[x]%3d%*1[x]%3d%n", c, h, w, &end) == 3;
  if (is_shape && name[end] == ':')
    end += sscanf(name + end, ":%4d%n", classes, &behind) == 1 ? behind : 0;
  if (is_shape && !name[end] && *c >= 1 && *c <= HD_DATA_MAX_CHANNELS && *h >= 1 && *h <= MOST_SIDE && *w >= 1 &&
      *w <= MOST_SIDE && *classes >= 2 && *classes <= MOST_CLASSES)
    return HD_OK;
  return hd__fail(
      ctx, HD_E_USAGE,
      "--data random: expects 1 to %d channels, sides of 1 to %d and 2 to %d classes, found '%s'; write for "
      "example random:3x32x32 or random:3x32x32:2",
      HD_DATA_MAX_CHANNELS, MOST_SIDE, MOST_CLASSES, name);
}

/* Noise with labels, for benchmarks on samples of any shape. */
static hd_status draw_random(hd_opened *out, hd_ctx *ctx, const hd_data_request *request) {
  enum { TRAIN = 8192, TEST = 1024, ALL = TRAIN + TEST, OF_A_BYTE = 256 };
  int shape[3], classes;
  HD_TRY(read_shape(shape, &classes, ctx, request->name));
  hd_resident_samples *d;
  HD_TRY(make_room(&d, out, ctx, shape, classes, TRAIN, TEST));
  const int64_t sample = (int64_t)shape[0] * shape[1] * shape[2], bytes = ALL * (sample + 1);
  for (int64_t at = 0; at < bytes; at += 16) {
    const uint32_t counter[4] = {(uint32_t)(at / 16)};
    uint32_t word[4];
    hd__philox(word, 0, counter);
    for (int i = 0; i < 16; i++)
      d->images[at + i] = (uint8_t)(word[i / 4] >> (i % 4 * 8));
  }
  const uint8_t *byte = d->images + ALL * sample;
  for (int i = 0; i < ALL; i++)
    d->labels[i] = (byte[i] + (classes > OF_A_BYTE ? OF_A_BYTE * byte[(i + 1) % ALL] : 0)) % classes;
  return HD_OK;
}

const hd_format hd__format_digits = {"synthetic handwriting", takes_digits, draw_digits};
const hd_format hd__format_random = {"noise", takes_random, draw_random};
