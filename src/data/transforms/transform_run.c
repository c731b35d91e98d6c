/* Buffers, views and draws of a run, and helpers for fitting; see transform_step.h. */
#include "data/transforms/transform_step.h"

#include <math.h>
#include <string.h>

#include "base/hdmath.h"
#include "base/philox.h"

hd_status hd__fit_fill(const hd_transform_step *step, const hd_transform_fit *fit, double value, const char *key) {
  if (!fit->shape.bytes || (value >= 0 && value <= 255 && value == floor(value)))
    return HD_OK;
  return hd__yaml_fail(fit->ctx, step->where,
                       "expected a whole number from 0 to 255 as '%s' of %s, found %g; change it, or put to_float "
                       "before it",
                       key, step->row->name, value);
}

void hd__fit_work(hd_transform_fit *fit, size_t bytes) {
  if (bytes > fit->work_bytes)
    fit->work_bytes = bytes;
}

void hd__run_draw(uint32_t word[4], const hd_transform_run *run, const hd_transform_step *step, uint32_t block) {
  hd__rng_block(word, run->key.seed, HD_RNG_AUGMENT, run->key.epoch, (uint32_t)run->key.position, step->place, block);
}

bool hd__drawn_box(hd_rectangle *out, const hd_transform_step *step, const hd_transform_run *run, hd_range scale,
                   hd_range ratio, bool ratio_is_width) {
  enum { ATTEMPTS = 10 };
  const int32_t height = run->image.height, width = run->image.width;
  const hd_range form = {hd__log(ratio.low), hd__log(ratio.high)};
  for (uint32_t i = 0; i < ATTEMPTS; i++) {
    uint32_t word[4];
    hd__run_draw(word, run, step, 1 + i);
    const double area = hd__drawn_between(word[0], scale) * height * width;
    const double drawn = hd__exp(hd__drawn_between(word[1], form));
    const double more = floor(sqrt(area * drawn) + 0.5), less = floor(sqrt(area / drawn) + 0.5);
    const double tall = ratio_is_width ? less : more, wide = ratio_is_width ? more : less;
    if (tall < 1 || wide < 1 || tall > height || wide > width)
      continue;
    *out = (hd_rectangle){.height = (int32_t)tall, .width = (int32_t)wide};
    out->top = (int32_t)hd__rng_below(word[2], (uint32_t)(height - out->height + 1));
    out->left = (int32_t)hd__rng_below(word[3], (uint32_t)(width - out->width + 1));
    return true;
  }
  return false;
}

void *hd__run_buffer(hd_transform_run *run) {
  char *to = run->buffer[run->turn];
  run->turn = !run->turn;
  return to;
}

void hd__run_dense(hd_transform_run *run, void *at, bool bytes, int32_t height, int32_t width) {
  run->image = (hd_image){.at = at,
                          .bytes = bytes,
                          .channels = run->image.channels,
                          .height = height,
                          .width = width,
                          .plane = (int64_t)height * width,
                          .row = width,
                          .column = 1};
}

/* Copies a row of pixels from a view; contiguous ones at once. */
static void copy_row(void *to, const hd_image *from, int32_t c, int32_t y) {
  const int32_t width = from->width;
  if (from->column == 1) {
    if (from->bytes)
      memcpy(to, hd__image_byte(from, c, y, 0), (size_t)width);
    else
      memcpy(to, hd__image_float(from, c, y, 0), (size_t)width * sizeof(float));
  } else if (from->bytes) {
    const uint8_t *last = hd__image_byte(from, c, y, width - 1);
    for (int32_t x = 0; x < width; x++)
      ((uint8_t *)to)[x] = last[width - 1 - x];
  } else {
    const float *last = hd__image_float(from, c, y, width - 1);
    for (int32_t x = 0; x < width; x++)
      ((float *)to)[x] = last[width - 1 - x];
  }
}

static bool is_dense(const hd_image *image) {
  return image->column == 1 && image->row == image->width && image->plane == (int64_t)image->height * image->width;
}

void hd__run_settle(hd_transform_run *run) {
  const hd_image *from = &run->image;
  if (is_dense(from))
    return;
  const size_t row_bytes = (size_t)from->width * (from->bytes ? 1 : sizeof(float));
  char *to = hd__run_buffer(run);
  for (int32_t c = 0; c < from->channels; c++)
    for (int32_t y = 0; y < from->height; y++)
      copy_row(to + ((size_t)c * (size_t)from->height + (size_t)y) * row_bytes, from, c, y);
  hd__run_dense(run, to, from->bytes, from->height, from->width);
}

void hd__run_copy_floats(float *to, int64_t plane, int64_t row, const hd_transform_run *run) {
  static const float one = 1, nothing = 0;
  const hd_image *from = &run->image;
  for (int32_t c = 0; c < from->channels; c++)
    for (int32_t y = 0; y < from->height; y++) {
      float *out = to + c * plane + y * row;
      if (!from->bytes)
        copy_row(out, from, c, y);
      else if (from->column == 1)
        run->kernels->gather_u8(out, hd__image_byte(from, c, y, 0), from->width, 1, &one, &nothing);
      else
        for (int32_t x = 0; x < from->width; x++)
          out[x] = (float)*hd__image_byte(from, c, y, x);
    }
}

void *hd__run_copy(hd_transform_run *run) {
  const hd_image from = run->image;
  hd__run_settle(run);
  if (run->image.at != from.at)
    return (void *)(uintptr_t)run->image.at;
  void *to = hd__run_buffer(run);
  memcpy(to, from.at, (size_t)(from.plane * from.channels) * (from.bytes ? 1 : sizeof(float)));
  run->image.at = to;
  return to;
}

float *hd__run_floats(hd_transform_run *run) {
  const hd_image from = run->image;
  float *to = hd__run_buffer(run);
  hd__run_copy_floats(to, (int64_t)from.height * from.width, from.width, run);
  hd__run_dense(run, to, false, from.height, from.width);
  return to;
}
