/* Data sets without files: the built-in digits, and noise of any shape for benchmarks. */
#include "data/formats/formats.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/digits/digits.h"
#include "platform/parallel_for.h"

/* Allocates and describes both splits, consecutive in memory; without memory for samples that are not `kept`. */
static hd_status make_room(hd_split_memory **all, hd_dataset *out, hd_ctx *ctx, const int shape[3], int classes,
                           const int64_t count[2], bool kept) {
  enum { SLACK_BYTES = 16 };
  const int64_t sample = (int64_t)shape[0] * shape[1] * shape[2], samples = count[0] + count[1];
  hd_split_memory *to = *all = &out->memory[0];
  if (kept) /* labels as bytes after the samples */
    to->images = hd__malloc_scattered((size_t)(samples * (sample + 1) + SLACK_BYTES));
  to->labels = hd__malloc((size_t)samples * sizeof *to->labels);
  HD_TRY(HD_ALLOCATED((to->images || !kept) && to->labels, ctx, "out of memory for %lld drawn samples",
                      (long long)samples));
  for (int i = 0; i < 2; i++)
    out->split[i] = (hd_split){.count = count[i],
                               .channels = shape[0],
                               .height = shape[1],
                               .width = shape[2],
                               .images = kept ? to->images + (i ? count[0] * sample : 0) : NULL,
                               .labels = to->labels + (i ? count[0] : 0),
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
  const int64_t count[2] = {HD_DIGITS_TRAIN, HD_DIGITS_TEST};
  hd_split_memory *d;
  HD_TRY(make_room(&d, out, ctx, shape, CLASSES, count, true));
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
  const bool is_shape = sscanf(name, "random:%2d%*1[x]%3d%*1[x]%3d%n", c, h, w, &end) == 3;
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

/* The noise is a stream of bytes, sixteen of each counter, the low bytes of a word first: training samples, test
 * samples, a byte for each label. */
static void draw_block(uint8_t block[16], uint32_t counter) {
  uint32_t word[4];
  hd__philox_rounds(word, 0, (const uint32_t[4]){counter});
  for (int w = 0; w < 4; w++)
    for (int b = 0; b < 4; b++)
      block[4 * w + b] = (uint8_t)(word[w] >> 8 * b);
}

/* The bytes [at, at + count) of the stream. */
static void draw_noise(uint8_t *to, int64_t at, int64_t count) {
  enum { BLOCK = 16 };
  uint8_t block[BLOCK];
  int64_t done = 0;
  for (int64_t skip = at % BLOCK, taken; done < count && (skip > 0 || count - done < BLOCK); done += taken, skip = 0) {
    draw_block(block, (uint32_t)((at + done) / BLOCK));
    taken = count - done < BLOCK - skip ? count - done : BLOCK - skip;
    memcpy(to + done, block + skip, (size_t)taken);
  }
  for (; done + BLOCK <= count; done += BLOCK)
    draw_block(to + done, (uint32_t)((at + done) / BLOCK));
  if (done < count) {
    draw_block(block, (uint32_t)((at + done) / BLOCK));
    memcpy(to + done, block, (size_t)(count - done));
  }
}

enum { NOISE_TRAIN = 8192, NOISE_TEST = 1024, NOISE_ALL = NOISE_TRAIN + NOISE_TEST };

static hd_status get_noise(void *elems, int size[2], hd_ctx *ctx, const hd_split *split, int64_t sample) {
  const int64_t *first = split->self, bytes = hd__split_elems(split);
  draw_noise(elems, *first + sample * bytes, bytes);
  size[0] = split->height;
  size[1] = split->width;
  return HD_OK;
}

/* Makes both splits draw a sample whenever it is read. */
static hd_status draw_when_read(hd_dataset *out, hd_ctx *ctx) {
  void *self;
  HD_TRY(hd__dataset_hold(&self, out, ctx, 2 * sizeof(int64_t), NULL));
  int64_t *first = self; /* byte of the stream, of each split */
  first[1] = NOISE_TRAIN * hd__split_elems(&out->split[0]);
  for (int s = 0; s < 2; s++) {
    out->split[s].get = get_noise;
    out->split[s].self = &first[s];
    out->split[s].drawn = true;
  }
  return HD_OK;
}

/* Noise with labels, for benchmarks on samples of any shape. Large sets are drawn when they are read; small samples are
 * gathered from memory in less time. */
static hd_status draw_random(hd_dataset *out, hd_ctx *ctx, const hd_dataset_request *request) {
  enum { OF_A_BYTE = 256, MOST_BYTES = 32 << 20 };
  int shape[3], classes;
  HD_TRY(read_shape(shape, &classes, ctx, request->name));
  const int64_t bytes = NOISE_ALL * (int64_t)shape[0] * shape[1] * shape[2], count[2] = {NOISE_TRAIN, NOISE_TEST};
  const bool kept = bytes <= MOST_BYTES || request->fold.of > 0;
  hd_split_memory *d;
  uint8_t label[NOISE_ALL];
  HD_TRY(make_room(&d, out, ctx, shape, classes, count, kept));
  if (kept)
    draw_noise(d->images, 0, bytes);
  else
    HD_TRY(draw_when_read(out, ctx));
  draw_noise(label, bytes, NOISE_ALL);
  for (int i = 0; i < NOISE_ALL; i++)
    d->labels[i] = (label[i] + (classes > OF_A_BYTE ? OF_A_BYTE * label[(i + 1) % NOISE_ALL] : 0)) % classes;
  return HD_OK;
}

const hd_format hd__format_digits = {
    .name = "synthetic handwriting", .takes = takes_digits, .open = draw_digits, .names = {"digits"}};
const hd_format hd__format_random = {
    .name = "noise", .takes = takes_random, .open = draw_random, .names = {"random:CxHxW[:CLASSES]"}};
