/* Warps: each output pixel is sampled at a position of the input, between four pixels, or at the nearest one.
 * Positions outside are `fill`.
 *
 *   rotation, affine   the inverse matrix in double; its constant part of a row rounded to float, then
 *                      x = fma(m00, column, row's), y = fma(m10, column, row's)
 *   elastic            x = fma(alpha, dx, column), y = fma(alpha, dy, row); dx, dy = uniform noise in (-1, 1), of 16
 *                      bits each from word (pixel mod 4) of block pixel / 4, smoothed along rows, then along columns
 *                      by the same Gaussian, taps ascending from +0, zeros around the field */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hdmath.h"
#include "data/transforms/transform_step.h"

static const double PI = 3.14159265358979323846;

static void fill(float *to, int64_t count, float value) {
  for (int64_t i = 0; i < count; i++)
    to[i] = value;
}

static void fill_ramp(float *to, int32_t count) {
  for (int32_t i = 0; i < count; i++)
    to[i] = (float)i;
}

/* The image as float planes with a margin of `fill`: one pixel above and left, two below and right. */
typedef struct framed {
  float *pixel; /* row 0, column 0 of channel 0 */
  int64_t plane, row;
} framed;

static framed frame_image(hd_transform_run *run, double outside) {
  const int32_t height = run->image.height, width = run->image.width, channels = run->image.channels;
  const int64_t row = width + HD_TRANSFORM_MARGIN, plane = row * (height + HD_TRANSFORM_MARGIN);
  float *to = hd__run_buffer(run);
  fill(to, plane * channels, (float)outside);
  hd__run_copy_floats(to + row + 1, plane, row, run);
  return (framed){to + row + 1, plane, row};
}

static int32_t nearest(float at, int32_t count) {
  const float x = at + 0.5f;
  return x >= 0 ? (x < (float)count ? (int32_t)x : count) : -1; /* NaN is outside */
}

/* Samples a row of pixels at (x, y) in every channel; `plane` from one channel of `to` to the next. */
static void look_up(float *to, int64_t plane, const framed *from, const float *x, const float *y, bool nearest_pixel,
                    const hd_transform_run *run) {
  const hd_image *image = &run->image;
  for (int32_t c = 0; c < image->channels; c++) {
    const float *pixel = from->pixel + c * from->plane;
    float *out = to + c * plane;
    if (!nearest_pixel)
      run->kernels->image.sample(out, pixel, from->row, image->height, image->width, x, y, image->width);
    else
      for (int32_t i = 0; i < image->width; i++)
        out[i] = pixel[nearest(y[i], image->height) * from->row + nearest(x[i], image->width)];
  }
}

static hd_status fit_warp(const hd_warp *warp, const hd_transform_step *step, hd_transform_fit *fit) {
  HD_TRY(hd__fit_fill(step, fit, warp->fill, "fill"));
  fit->shape.bytes = false;
  hd__fit_work(fit, 3 * (size_t)fit->shape.width * sizeof(float));
  return HD_OK;
}

/* ---- rotation and affine ---- */

/* From output to input: x = m[0] X + m[1] Y + m[2], y = m[3] X + m[4] Y + m[5]. */
typedef struct matrix {
  double m[6];
} matrix;

/* Shears first, then rotates by `angle` (radians, clockwise on the screen: y points down) and scales, all around the
 * centre, then translates: torchvision's composition. Along x and y. */
typedef struct motion {
  double angle, scale, shear[2], by[2], centre[2];
} motion;

static matrix inverse_of(const motion *is) {
  const double cos_y = hd__cos(is->shear[1]), tan_x = hd__sin(is->shear[0]) / hd__cos(is->shear[0]);
  const double cosine = hd__cos(is->angle - is->shear[1]) / cos_y, sine = hd__sin(is->angle - is->shear[1]) / cos_y;
  const double a = cosine, b = -cosine * tan_x - hd__sin(is->angle), c = sine, d = -sine * tan_x + hd__cos(is->angle);
  matrix out = {{d / is->scale, -b / is->scale, 0, -c / is->scale, a / is->scale, 0}};
  const double back_x = -is->centre[0] - is->by[0], back_y = -is->centre[1] - is->by[1];
  out.m[2] = out.m[0] * back_x + out.m[1] * back_y + is->centre[0];
  out.m[5] = out.m[3] * back_x + out.m[4] * back_y + is->centre[1];
  return out;
}

static void apply_matrix(const hd_warp *warp, hd_transform_run *run, const matrix *inverse) {
  const int32_t height = run->image.height, width = run->image.width;
  const framed from = frame_image(run, warp->fill);
  const float by_x = (float)inverse->m[0], by_y = (float)inverse->m[3];
  float *to = hd__run_buffer(run), *x = run->work, *y = x + width, *ramp = y + width;
  fill_ramp(ramp, width);
  for (int32_t row = 0; row < height; row++) {
    fill(x, width, (float)(inverse->m[1] * row + inverse->m[2]));
    fill(y, width, (float)(inverse->m[4] * row + inverse->m[5]));
    run->kernels->image.add(x, ramp, by_x, width);
    run->kernels->image.add(y, ramp, by_y, width);
    look_up(to + (int64_t)row * width, (int64_t)height * width, &from, x, y, warp->nearest, run);
  }
  hd__run_dense(run, to, false, height, width);
}

hd_status hd__fit_rotation(hd_transform_step *step, hd_transform_fit *fit) {
  return fit_warp(&step->is.rotation.warp, step, fit);
}

void hd__apply_rotation(const hd_transform_step *step, hd_transform_run *run) {
  uint32_t word[4];
  hd__run_draw(word, run, step, 0);
  const double degrees = hd__drawn_between(word[0], step->is.rotation.degrees);
  const matrix m = inverse_of(&(motion){.angle = -degrees * PI / 180,
                                        .scale = 1,
                                        .centre = {(run->image.width - 1) * 0.5, (run->image.height - 1) * 0.5}});
  apply_matrix(&step->is.rotation.warp, run, &m);
}

/* A number or [low, high] for shear along x; [low, high, low, high] along x and y. */
static hd_status read_shear(hd_transform_step *step, hd_ctx *ctx) {
  static const hd_transform_param along_x = {.key = "shear", .bounds = {-89, 89}};
  const double most = along_x.bounds.high;
  const hd_yaml_node *node = hd__step_param(step, along_x.key);
  if (!node)
    return HD_OK;
  if (node->kind != HD_YAML_SEQUENCE || node->count != 4)
    return hd__step_range(&step->is.affine.shear[0], step, ctx, &along_x, node);
  for (int i = 0; i < 2; i++) {
    hd_range *range = &step->is.affine.shear[i];
    HD_TRY(hd__yaml_number(&range->low, ctx, &node->item[2 * i], -most, most));
    HD_TRY(hd__yaml_number(&range->high, ctx, &node->item[2 * i + 1], -most, most));
    if (range->low > range->high)
      return hd__yaml_fail(ctx, node, "expected [low, high, low, high] as 'shear', found %g before %g; swap them",
                           range->low, range->high);
  }
  return HD_OK;
}

static hd_status read_translate(hd_transform_step *step, hd_ctx *ctx) {
  const hd_yaml_node *node = hd__step_param(step, "translate");
  if (!node)
    return HD_OK;
  if (node->kind == HD_YAML_MAPPING || (node->kind == HD_YAML_SEQUENCE && node->count != 2))
    return hd__yaml_fail(
        ctx, node, "expected one fraction, or those of [width, height], as 'translate', found %s; write X or [X, Y]",
        node->kind == HD_YAML_MAPPING ? "a mapping" : "another list");
  for (int i = 0; i < 2; i++)
    HD_TRY(hd__yaml_number(&step->is.affine.translate[i], ctx, node->kind == HD_YAML_SEQUENCE ? &node->item[i] : node,
                           0, 1));
  return HD_OK;
}

hd_status hd__check_affine(hd_transform_step *step, hd_ctx *ctx) {
  HD_TRY(read_translate(step, ctx));
  return read_shear(step, ctx);
}

hd_status hd__fit_affine(hd_transform_step *step, hd_transform_fit *fit) {
  return fit_warp(&step->is.affine.warp, step, fit);
}

void hd__apply_affine(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_affine_step *is = &step->is.affine;
  const double width = run->image.width, height = run->image.height;
  const hd_range move[2] = {{-is->translate[0] * width, is->translate[0] * width},
                            {-is->translate[1] * height, is->translate[1] * height}};
  uint32_t word[4], more[4];
  hd__run_draw(word, run, step, 0);
  hd__run_draw(more, run, step, 1);
  const matrix m =
      inverse_of(&(motion){.angle = -hd__drawn_between(word[0], is->degrees) * PI / 180,
                           .scale = hd__drawn_between(word[1], is->scale),
                           .shear = {hd__drawn_between(word[2], is->shear[0]) * PI / 180,
                                     hd__drawn_between(word[3], is->shear[1]) * PI / 180},
                           .by = {hd__drawn_between(more[0], move[0]), hd__drawn_between(more[1], move[1])},
                           .centre = {(width - 1) * 0.5, (height - 1) * 0.5}});
  apply_matrix(&is->warp, run, &m);
}

/* ---- elastic ---- */

/* A field with `radius` zeros around it. */
static int64_t field_elems(const struct hd_elastic_step *is, int32_t height, int32_t width) {
  return ((int64_t)height + 2 * is->radius) * ((int64_t)width + 2 * is->radius);
}

hd_status hd__check_elastic(hd_transform_step *step, hd_ctx *ctx) {
  struct hd_elastic_step *is = &step->is.elastic;
  is->radius = (int32_t)ceil(3 * is->sigma);
  const int32_t taps = 2 * is->radius + 1;
  float *weight;
  HD_TRY(HD_NEW_RAW(weight, taps, ctx, "out of memory for the transforms"));
  step->memory = weight;
  is->weight = weight;
  double sum = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int32_t k = -is->radius; k <= is->radius; k++) {
      const double w = k == 0 ? 1 : hd__exp(-((double)k * k) / (2 * is->sigma * is->sigma));
      if (pass == 0)
        sum += w;
      else
        weight[k + is->radius] = (float)(w / sum);
    }
  return HD_OK;
}

hd_status hd__fit_elastic(hd_transform_step *step, hd_transform_fit *fit) {
  HD_TRY(fit_warp(&step->is.elastic.warp, step, fit));
  const size_t field = (size_t)field_elems(&step->is.elastic, fit->shape.height, fit->shape.width);
  const size_t pixels = (size_t)fit->shape.height * (size_t)fit->shape.width;
  hd__fit_work(fit, (3 * field + 3 * pixels + 1) * sizeof(float));
  return HD_OK;
}

static float noise_of(uint32_t bits) { return (float)((int32_t)(2 * bits + 1) - 65536) * 0x1p-16f; }

/* Writes noise into the middle of two fields with a border of zeros: of every word the upper half for x, the lower for
 * y. */
static void draw_fields(float *field[2], const hd_transform_step *step, const hd_transform_run *run) {
  const int32_t height = run->image.height, width = run->image.width, r = step->is.elastic.radius;
  const int64_t row = width + 2 * r;
  uint32_t word[4];
  int64_t pixel = 0;
  for (int axis = 0; axis < 2; axis++)
    memset(field[axis], 0, (size_t)field_elems(&step->is.elastic, height, width) * sizeof(float));
  for (int32_t y = 0; y < height; y++)
    for (int32_t x = 0; x < width; x++, pixel++) {
      const int64_t at = (y + r) * row + x + r;
      if (pixel % 4 == 0)
        hd__run_draw(word, run, step, (uint32_t)(pixel / 4));
      field[0][at] = noise_of(word[pixel % 4] >> 16);
      field[1][at] = noise_of(word[pixel % 4] & 0xffff);
    }
}

/* Along rows, then along columns. */
static void smooth_field(float *out, const float *field, float *rows, const struct hd_elastic_step *is,
                         const hd_transform_run *run) {
  const int32_t height = run->image.height, width = run->image.width, r = is->radius, taps = 2 * r + 1;
  const int64_t row = width + 2 * r;
  const hd_image_kernels *k = &run->kernels->image;
  memset(rows, 0, (size_t)(height + 2 * r) * (size_t)width * sizeof *rows);
  for (int32_t y = 0; y < height; y++)
    k->filter(rows + (y + r) * (int64_t)width, field + (y + r) * row, 1, is->weight, taps, width);
  k->filter(out, rows, width, is->weight, taps, (int64_t)height * width);
}

void hd__apply_elastic(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_elastic_step *is = &step->is.elastic;
  const int32_t height = run->image.height, width = run->image.width;
  const int64_t plane = (int64_t)height * width, room = field_elems(is, height, width);
  float *move[2] = {run->work, (float *)run->work + plane}, *field[2] = {move[1] + plane, move[1] + plane + room};
  float *rows = field[1] + room, *x = rows, *y = rows + width;
  draw_fields(field, step, run);
  for (int axis = 0; axis < 2; axis++)
    smooth_field(move[axis], field[axis], rows, is, run);
  const framed from = frame_image(run, is->warp.fill);
  float *to = hd__run_buffer(run);
  for (int32_t row = 0; row < height; row++) {
    fill_ramp(x, width);
    fill(y, width, (float)row);
    run->kernels->image.add(x, move[0] + (int64_t)row * width, (float)is->alpha, width);
    run->kernels->image.add(y, move[1] + (int64_t)row * width, (float)is->alpha, width);
    look_up(to + (int64_t)row * width, plane, &from, x, y, is->warp.nearest, run);
  }
  hd__run_dense(run, to, false, height, width);
}
