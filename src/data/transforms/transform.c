/* Pipelines: fitting a list of transforms to samples, and applying it. */
#include "data/transforms/transform.h"

#include <string.h>

#include "base/alloc.h"
#include "base/rounding.h"
#include "base/sized_struct.h"
#include "data/transforms/transform_step.h"
#include "platform/fpmode.h"

enum { ALIGNMENT = 64 };

struct hd_pipeline {
  const hd_kernels *kernels;
  hd_pipeline_input input;
  hd_pipeline_shape shape;
  hd_transform_step *step;
  int steps, mixup;   /* the step that mixes, -1: none */
  bool lacks_program; /* a fixed transform of the program was left out */
  size_t buffer_bytes, work_bytes, partner_bytes;
  float by[HD_TRANSFORM_MAX_CHANNELS], shift[HD_TRANSFORM_MAX_CHANNELS]; /* of the pass that writes the result */
};

/* ---- Fitting ---- */

/* Scaling as one FMA per pixel. */
static void scale_to_fma(float *by, float *shift, const hd_transform_fit *fit) {
  for (int c = 0; c < fit->shape.channels; c++) {
    by[c] = (float)(1 / (fit->scale.divisor * fit->scale.std[c]));
    shift[c] = (float)(-fit->scale.mean[c] / fit->scale.std[c]);
  }
}

static void keep_nothing(hd_transform_fit *fit) {
  fit->scale = (hd_pixel_scale){.divisor = 1};
  for (int c = 0; c < HD_TRANSFORM_MAX_CHANNELS; c++)
    fit->scale.std[c] = 1;
}

static hd_status insert_scaling(hd_pipeline *p, const hd_transform_step *before, hd_transform_fit *fit) {
  static const hd_transform scaling = {.name = "scaling", .apply = hd__apply_scaling};
  if (fit->shape.height == 0)
    return hd__yaml_fail(
        fit->ctx, before->where,
        "expected %s before to_float and normalise for images of any size, found it after them; move it up",
        before->row->name);
  hd_transform_step *step = &p->step[p->steps++];
  *step = (hd_transform_step){.row = &scaling, .in = fit->shape};
  scale_to_fma(step->is.scaling.by, step->is.scaling.shift, fit);
  keep_nothing(fit);
  fit->shape.bytes = false;
  return HD_OK;
}

/* Bytes of the image in floats, with a margin around each plane. */
static size_t plane_bytes(const hd_image_shape *shape) {
  const size_t rows = (size_t)shape->height + HD_TRANSFORM_MARGIN, columns = (size_t)shape->width + HD_TRANSFORM_MARGIN;
  return (size_t)shape->channels * rows * columns * sizeof(float);
}

static hd_status fit_step(hd_pipeline *p, hd_transform_step *step, hd_transform_fit *fit) {
  const bool any_size = fit->shape.height == 0;
  const hd_transform_touch touch = step->row->touch;
  const struct hd_crop_step *crop = &step->is.crop; /* of those that crop */
  if (any_size && touch == HD_TOUCH_COMPUTES)
    return hd__yaml_fail(fit->ctx, step->where,
                         "expected a resize or a crop before %s for images of any size, found none; put one first",
                         step->row->name);
  if (fit->scale.given &&
      (touch >= HD_TOUCH_COMPUTES || (touch == HD_TOUCH_CROPS && (crop->padding[0] || crop->padding[1] || any_size))))
    HD_TRY(insert_scaling(p, step, fit));
  step->in = fit->shape;
  hd_status status = step->row->fit ? step->row->fit(step, fit) : HD_OK;
  step->out = fit->shape;
  const hd_image_shape *shape[2] = {&step->in, &step->out};
  for (int i = 0; i < 2 && status == HD_OK; i++)
    if (shape[i]->height > 0 && plane_bytes(shape[i]) > p->buffer_bytes)
      p->buffer_bytes = plane_bytes(shape[i]);
  if (status == HD_OK && p->buffer_bytes > (size_t)1 << 30)
    status = hd__yaml_fail(fit->ctx, step->where,
                           "expected images of at most 1 GiB as floats, found larger ones; resize them first");
  return status;
}

static hd_status fit_end(hd_pipeline *p, hd_transform_fit *fit, const hd_yaml_node *list) {
  if (fit->shape.height == 0)
    return hd__yaml_fail(fit->ctx, list,
                         "expected a resize or a crop for images of any size, found none; add '- resize: [H, W]'");
  if (fit->shape.unit == HD_PIXEL_255)
    return hd__yaml_fail(fit->ctx, list,
                         "expected to_float in the list, since models read floats, not bytes, found none; add '- "
                         "to_float' and '- normalise'");
  scale_to_fma(p->by, p->shift, fit);
  const size_t align = ALIGNMENT - 1;
  if (plane_bytes(&fit->shape) > p->buffer_bytes)
    p->buffer_bytes = plane_bytes(&fit->shape);
  p->buffer_bytes = (p->buffer_bytes + align) & ~align;
  p->work_bytes = (fit->work_bytes + align) & ~align;
  p->partner_bytes = p->mixup < 0 ? 0 : (p->buffer_bytes + (size_t)fit->targets * sizeof(float) + align) & ~align;
  p->shape = (hd_pipeline_shape){.channels = fit->shape.channels,
                                 .height = fit->shape.height,
                                 .width = fit->shape.width,
                                 .targets = fit->targets,
                                 .partner = p->mixup >= 0,
                                 .scratch_bytes = 2 * p->buffer_bytes + p->work_bytes + p->partner_bytes};
  return HD_OK;
}

static hd_status check_input(hd_ctx *ctx, const hd_pipeline_input *in) {
  if (in->channels < 1 || in->channels > HD_TRANSFORM_MAX_CHANNELS)
    return hd__fail(ctx, HD_E_USAGE, "expected 1 to %d channels for a pipeline, found %d", HD_TRANSFORM_MAX_CHANNELS,
                    in->channels);
  if (in->height < 0 || in->width < 0 || in->height > 65535 || in->width > 65535 || !in->height != !in->width)
    return hd__fail(ctx, HD_E_USAGE, "expected sides of 1 to 65535 pixels for a pipeline, or 0 x 0, found %d x %d",
                    in->height, in->width);
  if (in->classes < 0 || in->outputs < 0 || (in->classes > 0) == (in->outputs > 0))
    return hd__fail(ctx, HD_E_USAGE, "expected either classes or outputs for a pipeline, found %d and %d", in->classes,
                    in->outputs);
  return HD_OK;
}

static bool is_dropped(const hd_transform *row, hd_pipeline_mode mode) {
  if (mode == HD_PIPELINE_FITTED)
    return row->touch != HD_TOUCH_SCALES;
  return mode == HD_PIPELINE_EVALUATION && row->kind == HD_TRANSFORM_RANDOM;
}

static hd_status build(hd_pipeline *p, hd_ctx *ctx, const hd_yaml_node *list, hd_pipeline_mode mode) {
  hd_transform_fit fit = {.ctx = ctx,
                          .input = &p->input,
                          .shape = {.channels = p->input.channels,
                                    .height = p->input.height,
                                    .width = p->input.width,
                                    .bytes = p->input.bytes,
                                    .unit = p->input.bytes ? HD_PIXEL_255 : HD_PIXEL_1},
                          .targets = p->input.outputs,
                          .classes = p->input.classes};
  keep_nothing(&fit);
  for (int i = 0; i < list->count; i++) {
    hd_transform_step step = {.place = (uint32_t)i};
    hd_status status = hd__step_read(&step, ctx, &list->item[i]);
    const bool dropped = status == HD_OK && is_dropped(step.row, mode);
    p->lacks_program |= dropped && step.row->kind == HD_TRANSFORM_FIXED && hd__transform_is_of_program(step.row);
    step.middle = mode == HD_PIPELINE_EVALUATION;
    if (status == HD_OK && !dropped)
      status = fit_step(p, &step, &fit);
    if (status != HD_OK || dropped || step.row->touch == HD_TOUCH_SCALES) {
      hd__step_free(&step);
      HD_TRY(status);
      continue;
    }
    if (fit.mixes && p->mixup < 0)
      p->mixup = p->steps;
    p->step[p->steps++] = step;
  }
  return fit_end(p, &fit, list);
}

hd_status hd__pipeline_create(hd_pipeline **out, hd_ctx *ctx, const hd_yaml_node *list, const hd_pipeline_input *input,
                              hd_pipeline_mode mode, const hd_kernels *kernels) {
  HD_TRY(check_input(ctx, input));
  HD_TRY(hd__transforms_check(ctx, list));
  hd_pipeline *p = *out = hd__calloc(1, sizeof *p);
  HD_TRY(HD_ALLOCATED(p, ctx, "out of memory for the transforms"));
  p->kernels = kernels;
  p->input = *input;
  p->mixup = -1;
  hd_status status = HD_NEW(p->step, 2 * (size_t)list->count + 1, ctx, "out of memory for the transforms");
  HD_THEN(status, build(p, ctx, list, mode));
  p->input.mean = p->input.std = NULL; /* the caller's */
  for (int i = 0; i < p->steps; i++)
    p->step[i].where = p->step[i].param = NULL;
  return HD_CREATED(status, out, hd_pipeline_destroy);
}

hd_status hd_pipeline_create(hd_pipeline **out, hd_ctx *ctx, const char *yaml, const hd_pipeline_input *input,
                             hd_pipeline_mode mode) {
  HD_ROUNDING_TO_NEAREST;
  const char *why;
  HD_YAML_OWNED *list = NULL;
  hd_pipeline_input wanted;
  *out = NULL;
  HD_TRY(hd__struct_read(&wanted, ctx, input, sizeof wanted, "hd_pipeline_input"));
  HD_TRY(hd__yaml_parse(&list, ctx, yaml, strlen(yaml), "transforms"));
  return hd__pipeline_create(out, ctx, hd__yaml_root(list), &wanted, mode, hd__kernels_select(NULL, &why));
}

void hd_pipeline_destroy(hd_pipeline *p) {
  if (!p)
    return;
  for (int i = 0; i < p->steps; i++)
    hd__step_free(&p->step[i]);
  hd__free(p->step);
  hd__free(p);
}

const float *hd__pipeline_scale(const hd_pipeline *p) { return p->by; }

float *hd__pipeline_shift(hd_pipeline *p) { return p->shift; }

const hd_pipeline_shape *hd_pipeline_shape_of(const hd_pipeline *pipeline) { return &pipeline->shape; }

int64_t hd_pipeline_partner(int64_t position, int64_t count) { return position + 1 < count ? position + 1 : 0; }

hd_status hd__pipeline_check_masks(hd_ctx *ctx, const hd_pipeline *p) {
  for (int i = 0; i < p->steps; i++)
    HD_TRY(hd__mask_check(ctx, &p->step[i]));
  return HD_OK;
}

bool hd__pipeline_lacks_program(const hd_pipeline *p) { return p->lacks_program; }

bool hd__pipeline_keeps_frame(const hd_pipeline *p) {
  int i = 0;
  while (i < p->steps && hd__mask_keeps_frame(&p->step[i]))
    i++;
  return i == p->steps;
}

/* ---- Applying ---- */

/* The initial state of a run. */
static hd_transform_run start(const hd_pipeline *p, const hd_sample *sample, const hd_sample_key *key, float *target,
                              char *scratch) {
  const hd_pipeline_input *in = &p->input;
  const int32_t height = in->height ? in->height : sample->height, width = in->width ? in->width : sample->width;
  hd_transform_run run = {.kernels = p->kernels,
                          .image = {.channels = in->channels},
                          .buffer = {scratch, scratch + p->buffer_bytes},
                          .work = scratch + 2 * p->buffer_bytes,
                          .key = *key,
                          .number = sample->number,
                          .label = sample->label,
                          .target = target,
                          .targets = p->shape.targets};
  hd__run_dense(&run, NULL, in->bytes, height, width);
  run.image.at = sample->pixels;
  if (in->outputs && target)
    memcpy(target, sample->target, (size_t)in->outputs * sizeof *target);
  return run;
}

static void take_steps(const hd_pipeline *p, hd_transform_run *run, int steps) {
  for (int i = 0; i < steps; i++)
    p->step[i].row->apply(&p->step[i], run);
}

/* The partner in the form that mixing needs: planes, followed by its targets. */
static const float *make_partner(const hd_pipeline *p, const hd_sample *partner, const hd_sample_key *key,
                                 char *scratch) {
  char *to = scratch + 2 * p->buffer_bytes + p->work_bytes;
  hd_sample_key its = *key;
  its.position = hd_pipeline_partner(key->position, key->count);
  hd_transform_run run = start(p, partner, &its, (float *)(void *)(to + p->buffer_bytes), scratch);
  take_steps(p, &run, p->mixup);
  hd__run_copy_floats((float *)(void *)to, (int64_t)run.image.height * run.image.width, run.image.width, &run);
  return (const float *)(void *)to;
}

bool hd__pipeline_draws(const hd_pipeline *p) {
  bool draws = false;
  for (int i = 0; i < p->steps; i++)
    draws |= p->step[i].row && p->step[i].row->kind != HD_TRANSFORM_FIXED && !p->step[i].middle;
  return draws;
}

void hd__pipeline_target(float *target, const hd_pipeline *p, const hd_sample *sample) {
  hd_transform_run run = {.label = sample->label, .target = target, .targets = p->shape.targets};
  if (p->input.outputs)
    memcpy(target, sample->target, (size_t)p->input.outputs * sizeof *target);
  for (int i = 0; i < p->steps; i++)
    if (p->step[i].row->touch == HD_TOUCH_NOTHING)
      p->step[i].row->apply(&p->step[i], &run);
}

void hd_pipeline_apply(float *image, float *target, const hd_pipeline *p, const hd_sample *sample,
                       const hd_sample *partner, const hd_sample_key *key, void *scratch) {
  const uint64_t mode = hd__fpmode_enter();
  const float *other = p->mixup < 0 ? NULL : make_partner(p, partner, key, scratch);
  hd_transform_run run = start(p, sample, key, target, scratch);
  run.partner = other;
  run.partner_target = other ? other + p->buffer_bytes / sizeof(float) : NULL;
  take_steps(p, &run, p->steps);
  hd__run_settle(&run);
  const int64_t plane = run.image.plane;
  if (run.image.bytes)
    p->kernels->gather_u8(image, run.image.at, plane, p->shape.channels, p->by, p->shift);
  else
    p->kernels->gather_f32(image, run.image.at, plane, p->shape.channels, p->by, p->shift);
  hd__fpmode_leave(mode);
}

/* A mask that a warp has made of floats, as bytes again. */
static const uint8_t *mask_bytes(hd_transform_run *run) {
  const int64_t count = run->image.plane;
  const float *from = run->image.at;
  uint8_t *to = hd__run_buffer(run);
  for (int64_t i = 0; i < count; i++)
    to[i] = (uint8_t)from[i];
  return to;
}

const uint8_t *hd__pipeline_mask(const hd_pipeline *p, const hd_sample *sample, const hd_sample_key *key,
                                 void *scratch) {
  const uint64_t mode = hd__fpmode_enter();
  char *buffer = scratch;
  hd_transform_run run = {.kernels = p->kernels,
                          .image = {.channels = 1},
                          .buffer = {buffer, buffer + p->buffer_bytes},
                          .work = buffer + 2 * p->buffer_bytes,
                          .key = *key,
                          .number = sample->number};
  hd__run_dense(&run, NULL, true, sample->height, sample->width);
  run.image.at = sample->pixels;
  for (int i = 0; i < p->steps; i++)
    hd__mask_apply(&p->step[i], &run);
  hd__run_settle(&run);
  const uint8_t *mask = run.image.bytes ? run.image.at : mask_bytes(&run);
  hd__fpmode_leave(mode);
  return mask;
}
