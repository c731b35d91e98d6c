/* Transforms of values: to_float and normalise, colour jitter, erasing, cutout; and of targets: one_hot, mixup. */
#include "data/transforms/transform_step.h"

#include <math.h>
#include <string.h>

#include "base/hdmath.h"
#include "base/philox.h"

/* ---- to_float and normalise: kept back until the pixels are passed over anyway, then fma(x, by, shift) ---- */

hd_status hd__fit_to_float(hd_transform_step *step, hd_transform_fit *fit) {
  if (fit->shape.unit != HD_PIXEL_255)
    return HD_OK;
  fit->scale.given = true;
  fit->scale.divisor = 255;
  fit->shape.unit = HD_PIXEL_1;
  return HD_OK;
}

/* One number, or one per channel. */
static hd_status read_channels(double *out, int32_t *count, const hd_transform_step *step, hd_ctx *ctx, const char *key,
                               double min) {
  const hd_yaml_node *node = hd__step_param(step, key);
  if (!node)
    return hd__yaml_fail(ctx, step->where,
                         "expected both 'mean' and 'std' of %s, found no '%s'; add it, or write 'normalise: computed'",
                         step->row->name, key);
  if (node->kind == HD_YAML_MAPPING || (node->kind == HD_YAML_SEQUENCE && node->count > HD_TRANSFORM_MAX_CHANNELS))
    return hd__yaml_fail(ctx, node,
                         "expected a number, or a list of one number per channel, as '%s', found %s; write such a list",
                         key, node->kind == HD_YAML_MAPPING ? "a mapping" : "a longer list");
  *count = node->kind == HD_YAML_SEQUENCE ? node->count : 1;
  for (int32_t c = 0; c < *count; c++)
    HD_TRY(hd__yaml_number(&out[c], ctx, node->kind == HD_YAML_SEQUENCE ? &node->item[c] : node, min, 1e6));
  return HD_OK;
}

hd_status hd__check_normalise(hd_transform_step *step, hd_ctx *ctx) {
  struct hd_normalise_step *is = &step->is.normalise;
  const hd_yaml_node *mean = hd__step_param(step, "mean"), *std = hd__step_param(step, "std");
  const bool word = mean && mean->kind == HD_YAML_SCALAR && !strcmp(mean->text, "computed");
  if (word && std)
    return hd__yaml_fail(ctx, std, "expected no 'std' beside a computed mean, found one; leave it out");
  is->computed = word || (!mean && !std);
  if (is->computed)
    return HD_OK;
  HD_TRY(read_channels(is->mean, &is->means, step, ctx, "mean", -1e6));
  return read_channels(is->std, &is->stds, step, ctx, "std", 1e-6);
}

static hd_status check_count(const hd_transform_step *step, const hd_transform_fit *fit, int32_t count,
                             const char *key) {
  if (count == 1 || count == fit->shape.channels)
    return HD_OK;
  return hd__yaml_fail(fit->ctx, step->where,
                       "expected one number as '%s' of %s, or one for each of %d channels, found %d; give that many",
                       key, step->row->name, fit->shape.channels, count);
}

hd_status hd__fit_normalise(hd_transform_step *step, hd_transform_fit *fit) {
  const struct hd_normalise_step *is = &step->is.normalise;
  const double *mean = is->computed ? fit->input->mean : is->mean;
  const double *std = is->computed ? fit->input->std : is->std;
  if (fit->shape.unit == HD_PIXEL_255)
    return hd__yaml_fail(fit->ctx, step->where,
                         "expected numbers from 0 to 1 for %s, found bytes from 0 to 255; put to_float before it",
                         step->row->name);
  if (!mean || !std)
    return hd__yaml_fail(
        fit->ctx, step->where,
        "expected the training set's mean and standard deviation for %s, found none; give 'mean' and 'std'",
        step->row->name);
  if (!is->computed) {
    HD_TRY(check_count(step, fit, is->means, "mean"));
    HD_TRY(check_count(step, fit, is->stds, "std"));
  }
  for (int32_t c = 0; c < fit->shape.channels; c++) {
    hd_pixel_scale *s = &fit->scale;
    const double m = mean[is->computed || is->means > 1 ? c : 0], d = std[is->computed || is->stds > 1 ? c : 0];
    s->mean[c] = s->mean[c] + s->std[c] * m;
    s->std[c] = s->std[c] * d;
  }
  fit->scale.given = true;
  fit->shape.unit = HD_PIXEL_FREE;
  return HD_OK;
}

/* ---- colour_jitter: brightness, contrast, saturation, hue, in this order, each cut to the range ---- */

static bool is_fixed(hd_range range, double at) { return range.low == at && range.high == at; }

hd_status hd__fit_colour_jitter(hd_transform_step *step, hd_transform_fit *fit) {
  const struct hd_colour_jitter_step *is = &step->is.colour_jitter;
  const bool colours = !is_fixed(is->saturation, 1) || !is_fixed(is->hue, 0);
  if (fit->shape.channels != 3 && (colours || fit->shape.channels != 1))
    return hd__yaml_fail(fit->ctx, step->where, "expected 3 channels for %s%s, found %d; leave %s out", step->row->name,
                         colours ? " with saturation or hue" : ", or 1", fit->shape.channels, colours ? "both" : "it");
  if (fit->shape.unit == HD_PIXEL_FREE)
    return hd__yaml_fail(fit->ctx, step->where,
                         "expected colours from 0 to 1 for %s, found normalised ones; put it before normalise",
                         step->row->name);
  fit->shape.bytes = false;
  return HD_OK;
}

static float cut(float x, float top) { return x < 0 ? 0 : x > top ? top : x; }

static float grey_of(const float *at, int64_t plane, int32_t channels) {
  return channels == 1 ? *at : (0.299f * at[0] + 0.587f * at[plane]) + 0.114f * at[2 * plane];
}

static void brighten(float *x, int64_t count, float factor, float top) {
  for (int64_t i = 0; i < count; i++)
    x[i] = cut(x[i] * factor, top);
}

/* The mean of grey: 16 chains of additions and the tree, over the number of pixels. */
static float mean_grey(const float *x, int64_t plane, int32_t channels) {
  float chain[16] = {0};
  for (int64_t i = 0; i < plane; i++)
    chain[i % 16] = chain[i % 16] + grey_of(x + i, plane, channels);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      chain[i] = chain[i] + chain[i + half];
  return chain[0] / (float)plane;
}

static void change_contrast(float *x, int64_t plane, int32_t channels, float factor, float top) {
  const float mean = mean_grey(x, plane, channels);
  for (int64_t i = 0; i < plane * channels; i++)
    x[i] = cut((x[i] - mean) * factor + mean, top);
}

static void saturate(float *x, int64_t plane, float factor, float top) {
  for (int64_t i = 0; i < plane; i++) {
    const float grey = grey_of(x + i, plane, 3);
    for (int c = 0; c < 3; c++)
      x[c * plane + i] = cut((x[c * plane + i] - grey) * factor + grey, top);
  }
}

/* The hue of a colour with different extremes, rotated; 0 to 1 is the circle. */
static float turned_hue(float r, float g, float b, float high, float span, float turn) {
  float sixth = r == high ? (g - b) / span : g == high ? (b - r) / span + 2 : (r - g) / span + 4;
  float hue = sixth / 6 + turn;
  hue = hue < 0 ? hue + 1 : hue;
  return hue >= 1 ? hue - 1 : hue;
}

static void turn_hue(float *x, int64_t plane, float turn) {
  static const int order[6][3] = {{0, 3, 1}, {2, 0, 1}, {1, 0, 3}, {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};
  for (int64_t i = 0; i < plane; i++) {
    float *const at[3] = {x + i, x + plane + i, x + 2 * plane + i};
    const float r = *at[0], g = *at[1], b = *at[2];
    const float high = r > g ? (r > b ? r : b) : (g > b ? g : b), low = r < g ? (r < b ? r : b) : (g < b ? g : b);
    const float span = high - low;
    if (!(span > 0))
      continue;
    const float six = 6 * turned_hue(r, g, b, high, span, turn);
    const int sector = (int)six < 5 ? (int)six : 5;
    const float part = six - (float)sector;
    const float level[4] = {high, low, high - span * part, high - span * (1 - part)};
    for (int c = 0; c < 3; c++)
      *at[c] = level[order[sector][c]];
  }
}

void hd__apply_colour_jitter(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_colour_jitter_step *is = &step->is.colour_jitter;
  const float top = step->in.unit == HD_PIXEL_255 ? 255 : 1;
  float *x = hd__run_floats(run);
  const int64_t plane = run->image.plane;
  const int32_t channels = run->image.channels;
  uint32_t word[4];
  hd__run_draw(word, run, step, 0);
  if (!is_fixed(is->brightness, 1))
    brighten(x, plane * channels, (float)hd__drawn_between(word[0], is->brightness), top);
  if (!is_fixed(is->contrast, 1))
    change_contrast(x, plane, channels, (float)hd__drawn_between(word[1], is->contrast), top);
  if (!is_fixed(is->saturation, 1))
    saturate(x, plane, (float)hd__drawn_between(word[2], is->saturation), top);
  if (!is_fixed(is->hue, 0))
    turn_hue(x, plane, (float)hd__drawn_between(word[3], is->hue));
}

/* ---- erase ---- */

enum { FIRST_NOISE = 16 /* block of draws */ };

static hd_status read_patch(hd_patch *out, const hd_transform_step *step, hd_ctx *ctx) {
  const hd_yaml_node *value = hd__step_param(step, "value");
  out->noise = value && value->kind == HD_YAML_SCALAR && !strcmp(value->text, "noise");
  return !value || out->noise ? HD_OK : hd__yaml_number(&out->fill, ctx, value, -1e6, 1e6);
}

hd_status hd__check_erase(hd_transform_step *step, hd_ctx *ctx) { return read_patch(&step->is.erase.patch, step, ctx); }

hd_status hd__fit_erase(hd_transform_step *step, hd_transform_fit *fit) {
  return hd__fit_fill(step, fit, step->is.erase.patch.fill, "value");
}

/* Two standard normal numbers by Box and Muller. */
static double normal(uint32_t first, uint32_t second, bool sine) {
  static const double TURN = 6.28318530717958647693;
  const double radius = sqrt(-2 * hd__log(((double)(first >> 8) + 1) * 0x1p-24));
  const double angle = TURN * ((double)(second >> 8) * 0x1p-24);
  return radius * (sine ? hd__sin(angle) : hd__cos(angle));
}

/* Noise in the pixels' unit: bytes, numbers from 0 to 1, or normal ones if pixels are normalised. */
static float noise_of(const uint32_t word[4], int k, hd_pixel_unit unit) {
  if (unit == HD_PIXEL_FREE)
    return (float)normal(word[k & 2], word[(k & 2) + 1], k & 1);
  return hd__rng_uniform(word[k]) * (unit == HD_PIXEL_255 ? 255.0f : 1.0f);
}

static void fill_box(void *pixels, const hd_rectangle *b, const hd_patch *patch, const hd_transform_step *step,
                     const hd_transform_run *run) {
  uint32_t word[4], element = 0;
  for (int32_t c = 0; c < run->image.channels; c++)
    for (int32_t y = b->top; y < b->top + b->height; y++)
      for (int32_t x = b->left; x < b->left + b->width; x++, element++) {
        const int64_t at = c * run->image.plane + y * run->image.row + x;
        if (patch->noise && element % 4 == 0)
          hd__run_draw(word, run, step, FIRST_NOISE + element / 4);
        if (run->image.bytes)
          ((uint8_t *)pixels)[at] = patch->noise ? (uint8_t)(word[element % 4] >> 24) : (uint8_t)patch->fill;
        else
          ((float *)pixels)[at] = patch->noise ? noise_of(word, (int)(element % 4), step->in.unit) : (float)patch->fill;
      }
}

void hd__apply_erase(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_erase_step *is = &step->is.erase;
  uint32_t word[4];
  hd_rectangle b;
  hd__run_draw(word, run, step, 0);
  if (hd__drawn_chance(word[0], step->p) && hd__drawn_box(&b, step, run, is->scale, is->ratio, false))
    fill_box(hd__run_copy(run), &b, &is->patch, step, run);
}

/* ---- cutout (DeVries and Taylor, "Improved regularization of convolutional neural networks with cutout", arXiv
 * 1708.04552) ---- */

hd_status hd__check_cutout(hd_transform_step *step, hd_ctx *ctx) {
  return read_patch(&step->is.cutout.patch, step, ctx);
}

hd_status hd__fit_cutout(hd_transform_step *step, hd_transform_fit *fit) {
  const struct hd_cutout_step *is = &step->is.cutout;
  if (!is->anywhere && (is->size[0] > fit->shape.height || is->size[1] > fit->shape.width))
    return hd__yaml_fail(fit->ctx, step->where,
                         "expected a %s of at most %dx%d inside images of that size, found %dx%d; make it smaller, or "
                         "add 'place: anywhere'",
                         step->row->name, fit->shape.height, fit->shape.width, is->size[0], is->size[1]);
  return hd__fit_fill(step, fit, is->patch.fill, "value");
}

/* A random interval of `size` pixels along a side: inside, or around a pixel of the side and cut at its ends. */
static void draw_interval(int32_t *first, int32_t *count, uint32_t word, int32_t side, int32_t size, bool anywhere) {
  const int32_t from = anywhere ? (int32_t)hd__rng_below(word, (uint32_t)side) - size / 2
                                : (int32_t)hd__rng_below(word, (uint32_t)(side - size) + 1);
  *first = from < 0 ? 0 : from;
  *count = (from + size < side ? from + size : side) - *first;
}

void hd__apply_cutout(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_cutout_step *is = &step->is.cutout;
  uint32_t word[4];
  hd_rectangle b;
  hd__run_draw(word, run, step, 0);
  if (!hd__drawn_chance(word[0], step->p))
    return;
  draw_interval(&b.top, &b.height, word[1], run->image.height, is->size[0], is->anywhere);
  draw_interval(&b.left, &b.width, word[2], run->image.width, is->size[1], is->anywhere);
  fill_box(hd__run_copy(run), &b, &is->patch, step, run);
}

/* ---- Targets: one_hot converts a label to numbers, mixup mixes two samples and their targets ---- */

/* ---- one_hot ---- */

hd_status hd__fit_one_hot(hd_transform_step *step, hd_transform_fit *fit) {
  struct hd_one_hot_step *is = &step->is.one_hot;
  if (fit->targets)
    return hd__yaml_fail(fit->ctx, step->where, "expected class labels for %s, found float targets; leave it out",
                         step->row->name);
  if (!is->classes)
    is->classes = fit->classes;
  if (is->classes < fit->classes)
    return hd__yaml_fail(
        fit->ctx, step->where,
        "expected at least the %d classes of the data for %s, found %d; give more, or leave the number out",
        fit->classes, step->row->name, is->classes);
  fit->targets = is->classes;
  is->off = (float)(is->smoothing / is->classes);
  is->on = (float)(1 - is->smoothing + is->smoothing / is->classes);
  return HD_OK;
}

void hd__apply_one_hot(const hd_transform_step *step, hd_transform_run *run) {
  const struct hd_one_hot_step *is = &step->is.one_hot;
  for (int32_t i = 0; i < is->classes; i++)
    run->target[i] = i == run->label ? is->on : is->off;
}

/* ---- mixup ---- */

enum { ATTEMPTS = 32 };

hd_status hd__fit_mixup(hd_transform_step *step, hd_transform_fit *fit) {
  if (fit->mixes)
    return hd__yaml_fail(fit->ctx, step->where, "expected %s once, found it again; leave one out", step->row->name);
  if (!fit->targets)
    return hd__yaml_fail(fit->ctx, step->where,
                         "expected float targets for %s, found class labels; put one_hot before it", step->row->name);
  fit->mixes = true;
  fit->shape.bytes = false;
  return HD_OK;
}

/* The logarithm of a number drawn from the gamma distribution, after Marsaglia and Tsang (2000): with d = a - 1/3 the
 * cube of a shifted normal number, accepted or drawn again; where a < 1, that of a + 1 times u^(1/a). Blocks from
 * `block` on: one for u, then one an attempt. */
static double log_gamma_drawn(double a, const hd_transform_step *step, const hd_transform_run *run, uint32_t block) {
  static const double TURN = 6.28318530717958647693;
  uint32_t word[4];
  hd__run_draw(word, run, step, block);
  const double less = a < 1 ? hd__log(((double)(word[0] >> 8) + 0.5) * 0x1p-24) / a : 0;
  const double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / sqrt(9 * d);
  for (uint32_t i = 1; i <= ATTEMPTS; i++) {
    hd__run_draw(word, run, step, block + i);
    const double radius = sqrt(-2 * hd__log(((double)(word[0] >> 8) + 0.5) * 0x1p-24));
    const double x = radius * hd__cos(TURN * ((double)(word[1] >> 8) * 0x1p-24)), cube = 1 + c * x;
    if (cube <= 0)
      continue;
    const double v = cube * cube * cube, u = ((double)(word[2] >> 8) + 0.5) * 0x1p-24;
    if (hd__log(u) < x * x / 2 + d - d * v + d * hd__log(v))
      return hd__log(d * v) + less;
  }
  return hd__log(d) + less;
}

/* fma(share, x - partner, partner) for pixels and targets, with share drawn from Beta(alpha, alpha). */
void hd__apply_mixup(const hd_transform_step *step, hd_transform_run *run) {
  uint32_t word[4];
  hd__run_draw(word, run, step, 0);
  if (!run->partner || !hd__drawn_chance(word[0], step->p))
    return;
  const double sample_log = log_gamma_drawn(step->is.mixup.alpha, step, run, 1);
  const double partner_log = log_gamma_drawn(step->is.mixup.alpha, step, run, ATTEMPTS + 2);
  const float share = (float)(1 / (1 + hd__exp(partner_log - sample_log)));
  float *x = hd__run_floats(run);
  run->kernels->image.blend(x, run->partner, x, share, run->image.plane * run->image.channels);
  run->kernels->image.blend(run->target, run->partner_target, run->target, share, run->targets);
}

/* Applies the deferred scaling as a separate pass. */
void hd__apply_scaling(const hd_transform_step *step, hd_transform_run *run) {
  hd__run_settle(run);
  const hd_image *from = &run->image;
  float *to = hd__run_buffer(run);
  for (int32_t c = 0; c < from->channels; c++) {
    if (from->bytes)
      run->kernels->gather_u8(to + c * from->plane, hd__image_byte(from, c, 0, 0), from->plane, 1,
                              &step->is.scaling.by[c], &step->is.scaling.shift[c]);
    else
      run->kernels->gather_f32(to + c * from->plane, hd__image_float(from, c, 0, 0), from->plane, 1,
                               &step->is.scaling.by[c], &step->is.scaling.shift[c]);
  }
  hd__run_dense(run, to, false, from->height, from->width);
}
