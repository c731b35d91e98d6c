/* Data sets without files: the built-in digits, and noise of any shape for benchmarks. */
#include "data/formats/format.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "data/digits/digits.h"

typedef struct drawn {
  uint8_t *images;
  int32_t *labels;
} drawn;

static void release(void *self) {
  drawn *d = self;
  hd__free(d->images);
  hd__free(d->labels);
  hd__free(d);
}

/* Allocates and describes both splits. */
static hd_status make_room(hd_opened *out, drawn **d, hd_ctx *ctx, const int shape[3], int64_t train, int64_t test) {
  enum { CLASSES = 10, SLACK_BYTES = 16 };
  const int64_t sample = (int64_t)shape[0] * shape[1] * shape[2];
  void *self;
  HD_TRY(hd__opened_hold(&self, out, ctx, sizeof(drawn), release));
  *d = self;
  (*d)->images =
      hd__malloc_scattered((size_t)((train + test) * (sample + 1) + SLACK_BYTES)); /* labels as bytes behind them */
  (*d)->labels = hd__malloc((size_t)(train + test) * sizeof *(*d)->labels);
  HD_TRY(HD_ALLOCATED((*d)->images && (*d)->labels, ctx, "out of memory for %lld drawn samples",
                      (long long)(train + test)));
  for (int i = 0; i < 2; i++)
    out->split[i] = (hd_dataset){.count = i ? test : train,
                                 .channels = shape[0],
                                 .height = shape[1],
                                 .width = shape[2],
                                 .images = (*d)->images + (i ? train * sample : 0),
                                 .labels = (*d)->labels + (i ? train : 0),
                                 .classes = CLASSES};
  return HD_OK;
}

static bool takes_digits(hd_ctx *ctx, const char *name) { return !strcmp(name, "digits"); }

static hd_status draw_digits(hd_opened *out, hd_ctx *ctx, const hd_data_request *request) {
  enum { TRAIN = HD_DIGITS_TRAIN, ALL = TRAIN + HD_DIGITS_TEST, PIXELS = HD_DIGITS_SIDE * HD_DIGITS_SIDE, BLOCK = 250 };
  const int shape[3] = {1, HD_DIGITS_SIDE, HD_DIGITS_SIDE};
  hd_digits *digits;
  drawn *d;
  HD_TRY(make_room(out, &d, ctx, shape, TRAIN, HD_DIGITS_TEST));
  HD_TRY(hd__digits_create(&digits, ctx));
  uint8_t *labels = d->images + (size_t)ALL * PIXELS;
#pragma omp parallel for schedule(dynamic)
  for (int block = 0; block < ALL / BLOCK; block++) {
    int first = block * BLOCK, split = first >= TRAIN;
    hd__digits_render(digits, d->images + (size_t)first * PIXELS, labels + first, split, split ? first - TRAIN : first,
                      BLOCK);
  }
  hd__digits_destroy(digits);
  for (int i = 0; i < ALL; i++)
    d->labels[i] = labels[i];
  return HD_OK;
}

static bool takes_random(hd_ctx *ctx, const char *name) { return !strncmp(name, "random:", 7); }

/* "random:CxHxW": noise with labels, for benchmarks on samples of any shape. */
static hd_status draw_random(hd_opened *out, hd_ctx *ctx, const hd_data_request *request) {
  enum { TRAIN = 8192, TEST = 1024, ALL = TRAIN + TEST, CLASSES = 10, MOST_SIDE = 256 };
  int shape[3], end = 0;
  int *c = &shape[0], *h = &shape[1], *w = &shape[2];
  if (sscanf(request->name, "random:%1d%*1[x]%3d%*1[x]%3d%n", c, h, w, &end) != 3 || request->name[end] || *c < 1 ||
      *c > HD_DATA_MAX_CHANNELS || *h < 1 || *h > MOST_SIDE || *w < 1 || *w > MOST_SIDE)
    return hd__fail(ctx, HD_E_USAGE,
                    "--data random: expects 1 to %d channels and sides of 1 to %d, found '%s'; write "
                    "for example random:3x32x32",
                    HD_DATA_MAX_CHANNELS, MOST_SIDE, request->name);
  drawn *d;
  HD_TRY(make_room(out, &d, ctx, shape, TRAIN, TEST));
  const int64_t sample = (int64_t)*c * *h * *w, bytes = ALL * (sample + 1);
  for (int64_t at = 0; at < bytes; at += 16) {
    const uint32_t counter[4] = {(uint32_t)(at / 16)};
    uint32_t word[4];
    hd__philox(word, 0, counter);
    for (int i = 0; i < 16; i++)
      d->images[at + i] = (uint8_t)(word[i / 4] >> (i % 4 * 8));
  }
  for (int i = 0; i < ALL; i++)
    d->labels[i] = d->images[ALL * sample + i] % CLASSES;
  return HD_OK;
}

const hd_format hd__format_digits = {"handwriting that is drawn", takes_digits, draw_digits};
const hd_format hd__format_random = {"noise", takes_random, draw_random};
