/* Transforms that move pixels: pad, crops, translate, flips. A crop inside the image and a flip are views; results
 * that extend beyond the image are copied row by row, with a border. */
#include <string.h>

#include "base/philox.h"
#include "data/transforms/transform_step.h"

/* The source of a coordinate beyond [0, count); -1: none. */
static int32_t bordered(int64_t at, int32_t count, int border) {
  if (at >= 0 && at < count)
    return (int32_t)at;
  if (border == HD_BORDER_CONSTANT)
    return -1;
  if (border == HD_BORDER_EDGE || count == 1)
    return at < 0 ? 0 : count - 1;
  const int64_t period = 2 * ((int64_t)count - 1);
  at = at < 0 ? -at % period : at % period;
  return (int32_t)(at < count ? at : period - at);
}

static void fill_row(void *to, int64_t from, int64_t end, bool bytes, double fill) {
  if (bytes)
    memset((uint8_t *)to + from, (int)fill, end > from ? (size_t)(end - from) : 0);
  else
    for (int64_t x = from; x < end; x++)
      ((float *)to)[x] = (float)fill;
}

static void put_pixel(void *to, int64_t x, const hd_image *image, int32_t c, int32_t y, int32_t from_x) {
  if (image->bytes)
    ((uint8_t *)to)[x] = *hd__image_byte(image, c, y, from_x);
  else
    ((float *)to)[x] = *hd__image_float(image, c, y, from_x);
}

/* Columns [left, left + width) of row y of the image. */
static void window_row(void *to, const hd_image *image, int32_t c, int32_t y, int64_t left, int32_t width,
                       const struct hd_crop_step *is) {
  const int64_t begin = left < 0 ? (-left < width ? -left : width) : 0;
  const int64_t inside = image->width - left, end = inside < begin ? begin : inside < width ? inside : width;
  const size_t elem = image->bytes ? 1 : sizeof(float);
  if (is->border == HD_BORDER_CONSTANT) {
    fill_row(to, 0, begin, image->bytes, is->fill);
    fill_row(to, end, width, image->bytes, is->fill);
  } else {
    for (int64_t x = 0; x < begin; x++)
      put_pixel(to, x, image, c, y, bordered(left + x, image->width, is->border));
    for (int64_t x = end; x < width; x++)
      put_pixel(to, x, image, c, y, bordered(left + x, image->width, is->border));
  }
  if (end <= begin)
    return;
  if (image->column != 1)
    for (int64_t x = begin; x < end; x++)
      put_pixel(to, x, image, c, y, (int32_t)(left + x));
  else
    memcpy((char *)to + (size_t)begin * elem,
           image->bytes ? (const void *)hd__image_byte(image, c, y, (int32_t)(left + begin))
                        : (const void *)hd__image_float(image, c, y, (int32_t)(left + begin)),
           (size_t)(end - begin) * elem);
}

/* Makes the image the height x width pixels from (top, left) on, which may lie outside. */
static void take_window(hd_transform_run *run, const struct hd_crop_step *is, int64_t top, int64_t left, int32_t height,
                        int32_t width) {
  hd_image *image = &run->image;
  if (top >= 0 && left >= 0 && top + height <= image->height && left + width <= image->width) {
    hd__image_move(image, (int32_t)top, (int32_t)left);
    image->height = height;
    image->width = width;
    return;
  }
  const size_t row_bytes = (size_t)width * (image->bytes ? 1 : sizeof(float));
  char *to = hd__run_buffer(run);
  for (int32_t c = 0; c < image->channels; c++)
    for (int32_t y = 0; y < height; y++) {
      char *row = to + ((size_t)c * (size_t)height + (size_t)y) * row_bytes;
      const int32_t from = bordered(top + y, image->height, is->border);
      if (from < 0)
        fill_row(row, 0, width, image->bytes, is->fill);
      else
        window_row(row, image, c, from, left, width, is);
    }
  hd__run_dense(run, to, image->bytes, height, width);
}

/* ---- pad ---- */

hd_status hd__check_border(hd_transform_step *step, hd_ctx *ctx) {
  const struct hd_crop_step *is = &step->is.crop;
  const hd_yaml_node *fill = hd__step_param(step, "fill");
  if (fill && is->border != HD_BORDER_CONSTANT)
    return hd__yaml_fail(ctx, fill,
                         "expected 'fill' only with 'padding_mode: constant', found it with %s; leave it out",
                         is->border == HD_BORDER_REFLECT ? "reflect" : "edge");
  return HD_OK;
}

hd_status hd__fit_pad(hd_transform_step *step, hd_transform_fit *fit) {
  const struct hd_crop_step *is = &step->is.crop;
  fit->shape.height += 2 * is->padding[0];
  fit->shape.width += 2 * is->padding[1];
  return hd__fit_fill(step, fit, is->fill, "fill");
}

void hd__apply_pad(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_crop_step *is = &step->is.crop;
  take_window(run, is, -is->padding[0], -is->padding[1], run->image.height + 2 * is->padding[0],
              run->image.width + 2 * is->padding[1]);
}

/* ---- Crops ---- */

/* Images smaller than the crop are centred with a border around them. */
hd_status hd__fit_crop(hd_transform_step *step, hd_transform_fit *fit) {
  const struct hd_crop_step *is = &step->is.crop;
  const int32_t side[2] = {fit->shape.height, fit->shape.width};
  for (int i = 0; i < 2; i++)
    if (side[0] > 0 && is->size[i] > side[i] + 2 * is->padding[i])
      return hd__yaml_fail(
          fit->ctx, step->where,
          "expected a %s of at most %dx%d for images of %dx%d%s, found %dx%d; make it smaller, or pad before it",
          step->row->name, side[0] + 2 * is->padding[0], side[1] + 2 * is->padding[1], side[0], side[1],
          is->padding[0] || is->padding[1] ? " with their padding" : "", is->size[0], is->size[1]);
  fit->shape.height = is->size[0];
  fit->shape.width = is->size[1];
  return hd__fit_fill(step, fit, is->fill, "fill");
}

static int64_t floor_half(int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); }

void hd__apply_centre_crop(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_crop_step *is = &step->is.crop;
  take_window(run, is, floor_half((int64_t)run->image.height - is->size[0]),
              floor_half((int64_t)run->image.width - is->size[1]), is->size[0], is->size[1]);
}

/* A uniformly random place of `size` among `side` pixels with padding around them. */
static int64_t drawn_place(uint32_t word, int32_t side, int32_t padding, int32_t size) {
  const int64_t room = (int64_t)side + 2 * padding - size;
  return room < 0 ? floor_half((int64_t)side - size) : (int64_t)hd__rng_below(word, (uint32_t)room + 1) - padding;
}

void hd__apply_random_crop(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_crop_step *is = &step->is.crop;
  uint32_t word[4];
  if (step->middle) {
    hd__apply_centre_crop(step, run);
    return;
  }
  hd__run_draw(word, run, step, 0);
  take_window(run, is, drawn_place(word[0], run->image.height, is->padding[0], is->size[0]),
              drawn_place(word[1], run->image.width, is->padding[1], is->size[1]), is->size[0], is->size[1]);
}

/* A crop of the image's size from the padded image. */
hd_status hd__fit_translate(hd_transform_step *step, hd_transform_fit *fit) {
  struct hd_crop_step *is = &step->is.crop;
  is->size[0] = fit->shape.height;
  is->size[1] = fit->shape.width;
  return hd__fit_fill(step, fit, is->fill, "fill");
}

/* ---- Flips ---- */

static bool chosen(const hd_transform_step *step, const hd_transform_run *run) {
  uint32_t word[4];
  hd__run_draw(word, run, step, 0);
  return hd__drawn_chance(word[0], step->p);
}

static void flip_horizontally(hd_image *image) {
  hd__image_move(image, 0, image->width - 1);
  image->column = -image->column;
}

void hd__apply_horizontal_flip(const hd_transform_step *step, hd_transform_run *run) {
  if (chosen(step, run))
    flip_horizontally(&run->image);
}

/* Half of the samples, drawn by their numbers in the data set, in even epochs, the others in odd ones (Jordan, "94% on
 * CIFAR-10 in 3.29 seconds on a single GPU", arXiv 2404.00498, section 3.6). */
void hd__apply_alternating_flip(const hd_transform_step *step, hd_transform_run *run) {
  uint32_t word[4];
  hd__rng_block(word, run->key.seed, HD_RNG_AUGMENT, 0, (uint32_t)run->number, step->place, 0);
  if ((word[0] >> 31) != (run->key.epoch & 1))
    flip_horizontally(&run->image);
}

void hd__apply_vertical_flip(const hd_transform_step *step, hd_transform_run *run) {
  hd_image *image = &run->image;
  if (!chosen(step, run))
    return;
  hd__image_move(image, image->height - 1, 0);
  image->row = -image->row;
}
