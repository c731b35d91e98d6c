/* Predictions of the class of each pixel: see heddle/predict.h. The executor writes the classes into the memory that
 * keeps them until the next prediction. */
#include <string.h>

#include "base/alloc.h"
#include "train/inference/predictor.h"

bool hd__predicts_pixels(const hd_predictor *p) { return p->trained.network.target.places > 0; }

static int32_t classes_of(const hd_predictor *p) { return hd__target_classes(&p->trained.network.target); }
static int64_t mask_pixels(const hd_predictor *p) { return (int64_t)p->mask_size[0] * p->mask_size[1]; }

static hd_status make_room(hd_predictor *p, hd_ctx *ctx, int64_t bytes) {
  if (bytes <= p->mask_room)
    return HD_OK;
  hd__free(p->mask);
  p->mask_room = 0;
  HD_TRY(HD_NEW_RAW(p->mask, bytes, ctx, "out of memory for the classes of pixels"));
  p->mask_room = bytes;
  return HD_OK;
}

hd_status hd__masks_begin(hd_predictor *p, hd_ctx *ctx, int64_t samples, const int32_t input[3]) {
  p->masks = 0;
  if (!hd__predicts_pixels(p))
    return HD_OK;
  p->mask_size[0] = input[1];
  p->mask_size[1] = input[2];
  HD_TRY(make_room(p, ctx, samples * mask_pixels(p)));
  p->outcome.classes = p->mask;
  return HD_OK;
}

static void find_shares(double *share, const uint8_t *mask, int64_t pixels, int32_t classes) {
  int64_t count[256] = {0};
  for (int64_t i = 0; i < pixels; i++)
    count[mask[i]]++;
  for (int32_t c = 0; c < classes; c++)
    share[c] = (double)count[c] / (double)pixels;
}

void hd__masks_take(double *value, hd_predictor *p, int64_t samples) {
  const int32_t classes = classes_of(p);
  for (int64_t i = 0; i < samples; i++)
    find_shares(value + i * classes, p->outcome.classes + i * mask_pixels(p), mask_pixels(p), classes);
  p->masks += samples;
  p->outcome.classes += samples * mask_pixels(p);
}

/* The pixel in which the centre of pixel `i` of `to` lies, as the transform resize has it. */
static int64_t nearest(int64_t i, int64_t from, int64_t to) { return (2 * i + 1) * from / (2 * to); }

hd_status hd__masks_resize(double *value, hd_predictor *p, hd_ctx *ctx, int32_t height, int32_t width) {
  const int64_t rows = p->mask_size[0], columns = p->mask_size[1];
  HD_OWNED uint8_t *to = NULL;
  if (height == rows && width == columns)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(to, (int64_t)height * width, ctx, "out of memory for the classes of pixels"));
  for (int64_t y = 0; y < height; y++) {
    const uint8_t *row = p->mask + nearest(y, rows, height) * columns;
    for (int64_t x = 0; x < width; x++)
      to[y * width + x] = row[nearest(x, columns, width)];
  }
  p->mask_size[0] = height;
  p->mask_size[1] = width;
  HD_TRY(make_room(p, ctx, mask_pixels(p)));
  memcpy(p->mask, to, (size_t)mask_pixels(p));
  find_shares(value, p->mask, mask_pixels(p), classes_of(p));
  return HD_OK;
}

const uint8_t *hd_predictor_mask(int32_t size[2], const hd_predictor *p, int64_t index) {
  if (index < 0 || index >= p->masks)
    return NULL;
  memcpy(size, p->mask_size, sizeof p->mask_size);
  return p->mask + index * mask_pixels(p);
}

hd_status hd_predictor_write_mask(const hd_predictor *p, hd_ctx *ctx, int64_t index, const char *path) {
  int32_t size[2];
  const uint8_t *mask = hd_predictor_mask(size, p, index);
  if (!mask)
    return hd__fail(ctx, HD_E_USAGE,
                    "%s: expected a sample from 0 to %lld of the last prediction of classes of pixels, found %lld; "
                    "predict first",
                    path, (long long)p->masks - 1, (long long)index);
  return hd__png_write_mask(ctx, path, mask, size, &p->trained.palette, classes_of(p));
}
