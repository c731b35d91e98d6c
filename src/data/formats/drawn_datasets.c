/* Data sets without files: the built-in digits, and noise of any shape for benchmarks. */
#include "data/formats/formats.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/digits/digits.h"
#include "platform/parallel_for.h"

/* Allocates and describes both splits, consecutive in memory. */
static hd_status make_room(hd_split_memory **all, hd_dataset *out, hd_ctx *ctx, const int shape[3], int classes,
                           int64_t train, int64_t test) {
  enum { SLACK_BYTES = 16 };
  const int64_t sample = (int64_t)shape[0] * shape[1] * shape[2];
  hd_split_memory *to = *all = &out->memory[0];
  to->images = hd__malloc_scattered((size_t)((train + test) * (sample + 1) + SLACK_BYTES)); /* labels as bytes after the
                                                                                               samples */
  to->labels = hd__malloc((size_t)(train + test) * sizeof *to->labels);
  HD_TRY(
      HD_ALLOCATED(to->images && to->labels, ctx, "out of memory for %lld drawn samples", (long long)(train + test)));
  for (int i = 0; i < 2; i++)
    out->split[i] = (hd_split){.count = i ? test : train,
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

static hd_status draw_digits(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  enum { PIXELS = HD_DIGITS_SIDE * HD_DIGITS_SIDE, CLASSES = 10 };
  const int shape[3] = {1, HD_DIGITS_SIDE, HD_DIGITS_SIDE};
  hd_split_memory *d;
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
static hd_status draw_random(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  enum { TRAIN = 8192, TEST = 1024, ALL = TRAIN + TEST, OF_A_BYTE = 256 };
  int shape[3], classes;
  HD_TRY(read_shape(shape, &classes, ctx, request->name));
  hd_split_memory *d;
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

const hd_format hd__format_digits = {
    .name = "synthetic handwriting", .takes = takes_digits, .open = draw_digits, .names = {"digits"}};
const hd_format hd__format_random = {
    .name = "noise", .takes = takes_random, .open = draw_random, .names = {"random:CxHxW[:CLASSES]"}};
