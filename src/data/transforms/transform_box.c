/* Random rectangles inside images, for erase and random_resized_crop. */
#include <math.h>

#include "base/hdmath.h"
#include "base/philox.h"
#include "data/transforms/transform_step.h"

enum { ATTEMPTS = 10 };

bool hd__drawn_box(hd_rectangle *out, const hd_transform_step *step, const hd_transform_run *run, bool ratio_is_width) {
  const int32_t height = run->image.height, width = run->image.width;
  const hd_range form = {hd__log(step->ratio.low), hd__log(step->ratio.high)};
  for (uint32_t i = 0; i < ATTEMPTS; i++) {
    uint32_t word[4];
    hd__run_draw(word, run, step, 1 + i);
    const double area = hd__drawn_between(word[0], step->scale) * height * width;
    const double ratio = hd__exp(hd__drawn_between(word[1], form));
    const double more = floor(sqrt(area * ratio) + 0.5), less = floor(sqrt(area / ratio) + 0.5);
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

/* ---- random_resized_crop ---- */

hd_status hd__read_random_resized_crop(hd_transform_step *step, hd_ctx *ctx) {
  step->scale = (hd_range){0.08, 1};
  step->ratio = (hd_range){3.0 / 4, 4.0 / 3};
  HD_TRY(hd__step_range(&step->scale, step, ctx, "scale", 0, 1e-4, 1));
  HD_TRY(hd__step_range(&step->ratio, step, ctx, "ratio", 1, 0.01, 100));
  return hd__read_resize(step, ctx);
}

hd_status hd__fit_random_resized_crop(hd_transform_step *step, hd_transform_fit *fit) {
  return hd__fit_resize(step, fit);
}

static int32_t rounded_side(double side, int32_t most) {
  const double whole = floor(side + 0.5);
  return whole < 1 ? 1 : whole > most ? most : (int32_t)whole;
}

/* The largest centred rectangle with an allowed ratio. */
static hd_rectangle middle_box(const hd_transform_step *step, const hd_image *image) {
  const double ratio = (double)image->width / image->height;
  hd_rectangle b = {.height = image->height, .width = image->width};
  if (ratio < step->ratio.low)
    b.height = rounded_side(image->width / step->ratio.low, image->height);
  else if (ratio > step->ratio.high)
    b.width = rounded_side(image->height * step->ratio.high, image->width);
  b.top = (image->height - b.height) / 2;
  b.left = (image->width - b.width) / 2;
  return b;
}

void hd__apply_random_resized_crop(const hd_transform_step *step, hd_transform_run *run) {
  hd_image *image = &run->image;
  hd_rectangle b;
  if (step->middle || !hd__drawn_box(&b, step, run, true))
    b = middle_box(step, image);
  hd__image_move(image, b.top, b.left);
  image->height = b.height;
  image->width = b.width;
  hd__apply_resize(step, run);
}
