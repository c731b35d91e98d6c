/* Resizing: first along rows, then along columns, with a separate chain for each output pixel.
 *
 * Pixels are squares with centres at half-integers, and both images span the same area (PyTorch's
 * align_corners=False). Of n output pixels in place of m, number i has its centre at ((2i + 1) m - n) / 2n in input
 * pixels, cut at 0: an exact fraction, whose floor and remainder are computed in integers.
 *
 *   bilinear   a, b = the pixels at the floor and after it (the last one twice); fma(rest, b - a, a)
 *   area       where a side shrinks, with antialias: each input pixel is weighted by its overlap with the output pixel;
 *              acc = +0; ascending: acc = fma(weight, pixel, acc)
 *   nearest    the pixel in which the centre lies */
#include <math.h>
#include <string.h>

#include "data/transforms/transform_step.h"

/* Tables along one side, in a run's work memory. */
typedef struct axis {
  bool area;
  int32_t *left, *right; /* bilinear: the two pixels; area: the first and how many */
  float *share, *last;   /* bilinear: the remainder; area: weights of the first and the last */
  float inner;           /* area: the weight of the others */
} axis;

static size_t axis_bytes(int32_t count) { return (size_t)count * 4 * sizeof(float); }

static char *place_axis(axis *a, char *at, int32_t count) {
  a->left = (int32_t *)(void *)at;
  a->right = a->left + count;
  a->share = (float *)(void *)(a->right + count);
  a->last = a->share + count;
  return at + axis_bytes(count);
}

/* Output pixel i spans [i m, (i + 1) m) in units of 1/n input pixel. */
static void area_tables(axis *a, int32_t from, int32_t to) {
  const int64_t m = from, n = to;
  a->inner = (float)((double)n / (double)m);
  for (int64_t i = 0; i < n; i++) {
    const int64_t low = i * m, high = low + m, first = low / n, last = (high - 1) / n;
    const int64_t end = first == last ? high : (first + 1) * n;
    a->left[i] = (int32_t)first;
    a->right[i] = (int32_t)(last - first + 1);
    a->share[i] = (float)((double)(end - low) / (double)m);
    a->last[i] = (float)((double)(high - last * n) / (double)m);
  }
}

static void line_tables(axis *a, int32_t from, int32_t to) {
  const int64_t m = from, n = to;
  for (int64_t i = 0; i < n; i++) {
    const int64_t at = (2 * i + 1) * m - n, cut = at < 0 ? 0 : at, left = cut / (2 * n);
    a->left[i] = (int32_t)left;
    a->right[i] = (int32_t)(left + 1 < m ? left + 1 : left);
    a->share[i] = (float)((double)(cut % (2 * n)) / (double)(2 * n));
  }
}

static void make_axis(axis *a, int32_t from, int32_t to, bool antialias) {
  a->area = antialias && from > to;
  if (a->area)
    area_tables(a, from, to);
  else
    line_tables(a, from, to);
}

/* A channel that becomes height x width floats. */
typedef struct channel {
  const hd_transform_run *run;
  int32_t number, height, width;
  const axis *across, *down;
} channel;

/* A row of the view, of its own width, becomes the channel's width. The tables hold elements: pixels times the column's
 * step. */
static void resize_row(float *out, const channel *is, int32_t y) {
  const hd_image *from = &is->run->image;
  const hd_image_kernels *k = &is->run->kernels->image;
  const axis *across = is->across;
  const int32_t c = is->number, count = is->width;
  if (from->bytes && across->area)
    k->areas_u8(out, hd__image_byte(from, c, y, 0), from->column, across->left, across->right, across->share,
                across->last, across->inner, count);
  else if (from->bytes)
    k->columns_u8(out, hd__image_byte(from, c, y, 0), across->left, across->right, across->share, count);
  else if (across->area)
    k->areas_f32(out, hd__image_float(from, c, y, 0), from->column, across->left, across->right, across->share,
                 across->last, across->inner, count);
  else
    k->columns_f32(out, hd__image_float(from, c, y, 0), across->left, across->right, across->share, count);
}

static void area_down(float *out, float *row, const channel *is, int32_t i) {
  const axis *down = is->down;
  const int32_t number = down->right[i];
  memset(out, 0, (size_t)is->width * sizeof *out);
  for (int32_t k = 0; k < number; k++) {
    resize_row(row, is, down->left[i] + k);
    is->run->kernels->image.add(out, row,
                                k == 0            ? down->share[i]
                                : k == number - 1 ? down->last[i]
                                                  : down->inner,
                                is->width);
  }
}

/* Two resized rows are kept: the next output row usually needs one or both of them. */
typedef struct row_pair {
  float *row[2];
  int32_t number[2];
} row_pair;

static const float *row_of(row_pair *pair, int32_t y, const channel *is, int32_t keep) {
  for (int i = 0; i < 2; i++)
    if (pair->number[i] == y)
      return pair->row[i];
  const int take = pair->number[0] == keep ? 1 : 0;
  resize_row(pair->row[take], is, y);
  pair->number[take] = y;
  return pair->row[take];
}

static void resize_channel(float *out, const channel *is, float *rows) {
  const axis *down = is->down;
  row_pair pair = {{rows, rows + is->width}, {-1, -1}};
  for (int32_t i = 0; i < is->height; i++, out += is->width) {
    if (down->area) {
      area_down(out, rows, is, i);
      continue;
    }
    const float *over = row_of(&pair, down->left[i], is, down->right[i]);
    const float *under = row_of(&pair, down->right[i], is, down->left[i]);
    is->run->kernels->image.blend(out, over, under, down->share[i], is->width);
  }
}

static void resize_smooth(const struct hd_resize_step *is, hd_transform_run *run) {
  const int32_t *size = is->size;
  const int64_t plane = (int64_t)size[0] * size[1], column = run->image.column;
  axis across, down;
  char *at = place_axis(&across, run->work, size[1]);
  float *rows = (float *)(void *)place_axis(&down, at, size[0]), *to = hd__run_buffer(run);
  make_axis(&across, run->image.width, size[1], is->antialias);
  make_axis(&down, run->image.height, size[0], is->antialias);
  for (int32_t i = 0; column != 1 && i < size[1]; i++) {
    across.left[i] *= (int32_t)column;
    across.right[i] *= across.area ? 1 : (int32_t)column;
  }
  for (int32_t c = 0; c < run->image.channels; c++)
    resize_channel(to + c * plane, &(channel){run, c, size[0], size[1], &across, &down}, rows);
  hd__run_dense(run, to, false, size[0], size[1]);
}

static int32_t nearest(int32_t i, int32_t from, int32_t to) {
  return (int32_t)((2 * (int64_t)i + 1) * from / (2 * (int64_t)to));
}

static void resize_nearest(const struct hd_resize_step *is, hd_transform_run *run) {
  const hd_image *from = &run->image;
  const int32_t height = is->size[0], width = is->size[1];
  int32_t *across = run->work;
  void *to = hd__run_buffer(run);
  int64_t at = 0;
  for (int32_t x = 0; x < width; x++)
    across[x] = nearest(x, from->width, width);
  for (int32_t c = 0; c < from->channels; c++)
    for (int32_t y = 0; y < height; y++) {
      const int32_t row = nearest(y, from->height, height);
      for (int32_t x = 0; x < width; x++, at++)
        if (from->bytes)
          ((uint8_t *)to)[at] = *hd__image_byte(from, c, row, across[x]);
        else
          ((float *)to)[at] = *hd__image_float(from, c, row, across[x]);
    }
  hd__run_dense(run, to, from->bytes, height, width);
}

hd_status hd__check_resize(hd_transform_step *step, hd_ctx *ctx) {
  const struct hd_resize_step *is = &step->is.resize;
  const hd_yaml_node *antialias = hd__step_param(step, "antialias");
  if (is->nearest && antialias && is->antialias)
    return hd__yaml_fail(ctx, antialias,
                         "expected 'antialias: true' only with 'interpolation: bilinear', found it with nearest; "
                         "leave one out");
  return HD_OK;
}

hd_status hd__fit_resize(hd_transform_step *step, hd_transform_fit *fit) {
  const struct hd_resize_step *is = &step->is.resize;
  fit->shape.height = is->size[0];
  fit->shape.width = is->size[1];
  fit->shape.bytes = fit->shape.bytes && is->nearest;
  hd__fit_work(fit, axis_bytes(is->size[0]) + axis_bytes(is->size[1]) + 2 * sizeof(float) * (size_t)is->size[1]);
  return HD_OK;
}

void hd__apply_resize(const hd_transform_step *step, hd_transform_run *run) {
  if (step->is.resize.nearest)
    resize_nearest(&step->is.resize, run);
  else
    resize_smooth(&step->is.resize, run);
}

/* ---- random_resized_crop ---- */

static int32_t rounded_side(double side, int32_t most) {
  const double whole = floor(side + 0.5);
  return whole < 1 ? 1 : whole > most ? most : (int32_t)whole;
}

/* The largest centred rectangle with an allowed ratio. */
static hd_rectangle middle_box(hd_range allowed, const hd_image *image) {
  const double ratio = (double)image->width / image->height;
  hd_rectangle b = {.height = image->height, .width = image->width};
  if (ratio < allowed.low)
    b.height = rounded_side(image->width / allowed.low, image->height);
  else if (ratio > allowed.high)
    b.width = rounded_side(image->height * allowed.high, image->width);
  b.top = (image->height - b.height) / 2;
  b.left = (image->width - b.width) / 2;
  return b;
}

void hd__apply_random_resized_crop(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_resize_step *is = &step->is.resize;
  hd_image *image = &run->image;
  hd_rectangle b;
  if (step->middle || !hd__drawn_box(&b, step, run, is->scale, is->ratio, true))
    b = middle_box(is->ratio, image);
  hd__image_move(image, b.top, b.left);
  image->height = b.height;
  image->width = b.width;
  hd__apply_resize(step, run);
}
