/* The table of kinds of transforms; reading a list by it, and writing one as text: see transform_step.h and
 * transform.h. */
#include "data/transforms/transform.h"

#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/text_buffer.h"
#include "data/transforms/transform_step.h"

/* ---- The table ---- */

static const char *const borders[] = {"constant", "reflect", "edge", NULL};
static const char *const interpolations[] = {"bilinear", "nearest", NULL};
static const char *const places[] = {"inside", "anywhere", NULL};

/* Parameters: the key, the field, the default, and the bounds. */
#define PARAM(key, field, type, ...)                                                                                   \
  { key, offsetof(hd_transform_step, field), HD_PARAM_##type, __VA_ARGS__ }
#define SIDES(key, field, min, max) PARAM(key, field, SIDES, .bounds = {min, max})
#define WHOLE(key, field, min, max) PARAM(key, field, WHOLE, .bounds = {min, max})
#define NUMBER(key, field, value, min, max) PARAM(key, field, NUMBER, .bounds = {min, max}, .without = {.low = value})
#define RANGE(key, field, low, high, middle_at, min, max)                                                              \
  PARAM(key, field, RANGE, .bounds = {min, max}, .without = {low, high}, .middle = middle_at)
#define WORD(key, field, list, value) PARAM(key, field, WORD, .words = list, .without = {.low = value})
#define OTHER(key) PARAM(key, where, OTHER, .words = NULL) /* for the kind's `check` to read */

/* Of a transform whose parameters are is.`of`. */
#define SIZE(of) SIDES("size", is.of.size, 1, 65535)
#define PADDING(key) SIDES(key, is.crop.padding, 0, 4096)
#define BORDER(value) WORD("padding_mode", is.crop.border, borders, HD_BORDER_##value)
#define FILL(of) NUMBER("fill", is.of.fill, 0, -1e6, 1e6)
#define INTERPOLATION(of) WORD("interpolation", is.of.nearest, interpolations, 0)
#define ANTIALIAS PARAM("antialias", is.resize.antialias, FLAG, .without = {.low = true})
#define DEGREES(of) RANGE("degrees", is.of.degrees, 0, 0, 0, -360, 360)
#define CHANCE(value) NUMBER("p", p, value, 0, 1)
#define FACTOR(name) RANGE(#name, is.colour_jitter.name, 1, 1, 1, 0, 100)

/* A kind of transform: its names, whether the first parameter is required, what it does in evaluation, what it does to
 * pixels, its functions (NULL: nothing to do), its parameters. */
#define KIND(name, torchvision, required, kind, touch, check, fit, apply, ...)                                         \
  {                                                                                                                    \
    name, torchvision, required, HD_TRANSFORM_##kind, HD_TOUCH_##touch, check, fit, apply, { __VA_ARGS__ }             \
  }

/* clang-format off */
static const hd_transform table[] = {
    KIND("to_float", "to_tensor", 0, FIXED, SCALES, NULL, hd__fit_to_float, NULL, {0}),
    KIND("normalise", "normalize", 0, FIXED, SCALES, hd__check_normalise, hd__fit_normalise, NULL,
         OTHER("mean"), OTHER("std")),
    KIND("resize", NULL, 1, FIXED, RESIZES, hd__check_resize, hd__fit_resize, hd__apply_resize,
         SIZE(resize), INTERPOLATION(resize), ANTIALIAS),
    KIND("pad", NULL, 1, FIXED, COMPUTES, hd__check_border, hd__fit_pad, hd__apply_pad,
         PADDING("padding"), BORDER(CONSTANT), FILL(crop)),
    KIND("random_crop", NULL, 1, MIDDLE, CROPS, hd__check_border, hd__fit_crop, hd__apply_random_crop,
         SIZE(crop), PADDING("padding"), BORDER(CONSTANT), FILL(crop)),
    KIND("translate", NULL, 1, RANDOM, COMPUTES, hd__check_border, hd__fit_translate, hd__apply_random_crop,
         PADDING("pixels"), BORDER(REFLECT), FILL(crop)),
    KIND("random_resized_crop", NULL, 1, MIDDLE, RESIZES, hd__check_resize, hd__fit_resize,
         hd__apply_random_resized_crop,
         SIZE(resize), RANGE("scale", is.resize.scale, 0.08, 1, 0, 1e-4, 1),
         RANGE("ratio", is.resize.ratio, 3.0 / 4, 4.0 / 3, 1, 0.01, 100),
         INTERPOLATION(resize), ANTIALIAS),
    KIND("centre_crop", "center_crop", 1, FIXED, CROPS, hd__check_border, hd__fit_crop, hd__apply_centre_crop,
         SIZE(crop), BORDER(CONSTANT), FILL(crop)),
    KIND("horizontal_flip", "random_horizontal_flip", 0, RANDOM, MOVES, NULL, NULL, hd__apply_horizontal_flip,
         CHANCE(0.5)),
    KIND("alternating_flip", NULL, 0, RANDOM, MOVES, NULL, NULL, hd__apply_alternating_flip, {0}),
    KIND("vertical_flip", "random_vertical_flip", 0, RANDOM, MOVES, NULL, NULL, hd__apply_vertical_flip,
         CHANCE(0.5)),
    KIND("rotation", "random_rotation", 1, RANDOM, COMPUTES, NULL, hd__fit_rotation, hd__apply_rotation,
         DEGREES(rotation), INTERPOLATION(rotation.warp), FILL(rotation.warp)),
    KIND("affine", "random_affine", 1, RANDOM, COMPUTES, hd__check_affine, hd__fit_affine, hd__apply_affine,
         DEGREES(affine), OTHER("translate"), RANGE("scale", is.affine.scale, 1, 1, 1, 0.01, 100), OTHER("shear"),
         INTERPOLATION(affine.warp), FILL(affine.warp)),
    KIND("elastic", "elastic_transform", 1, RANDOM, COMPUTES, hd__check_elastic, hd__fit_elastic, hd__apply_elastic,
         NUMBER("alpha", is.elastic.alpha, 0, 0, 1e4), NUMBER("sigma", is.elastic.sigma, 5, 0, 64),
         INTERPOLATION(elastic.warp), FILL(elastic.warp)),
    KIND("erase", "random_erasing", 0, RANDOM, COMPUTES, hd__check_erase, hd__fit_erase, hd__apply_erase,
         CHANCE(0.5), RANGE("scale", is.erase.scale, 0.02, 0.33, 0, 0, 1),
         RANGE("ratio", is.erase.ratio, 0.3, 3.3, 1, 0.01, 100), OTHER("value")),
    KIND("cutout", NULL, 1, RANDOM, COMPUTES, hd__check_cutout, hd__fit_cutout, hd__apply_cutout,
         SIZE(cutout), CHANCE(1), WORD("place", is.cutout.anywhere, places, 0), OTHER("value")),
    KIND("colour_jitter", "color_jitter", 0, RANDOM, COMPUTES, NULL, hd__fit_colour_jitter, hd__apply_colour_jitter,
         FACTOR(brightness), FACTOR(contrast), FACTOR(saturation),
         RANGE("hue", is.colour_jitter.hue, 0, 0, 0, -0.5, 0.5)),
    KIND("one_hot", NULL, 0, FIXED, NOTHING, NULL, hd__fit_one_hot, hd__apply_one_hot,
         WHOLE("classes", is.one_hot.classes, 1, 1 << 20), NUMBER("smoothing", is.one_hot.smoothing, 0, 0, 1)),
    KIND("mixup", "mix_up", 0, RANDOM, COMPUTES, NULL, hd__fit_mixup, hd__apply_mixup,
         NUMBER("alpha", is.mixup.alpha, 1, 0.001, 1000), CHANCE(1)),
};
/* clang-format on */
enum { ROWS = sizeof table / sizeof *table, MAX_LIST = 64 };

/* ---- Reading entries ---- */

const hd_transform *hd__transform_find(const hd_ctx *ctx, const char *name) {
  const struct hd_custom_transforms *custom = ctx ? ctx->custom_transforms : NULL;
  for (int i = 0; i < ROWS; i++)
    if (!strcmp(name, table[i].name) || (table[i].torchvision && !strcmp(name, table[i].torchvision)))
      return &table[i];
  for (int i = 0; custom && i < custom->count; i++)
    if (!strcmp(name, custom->row[i].name))
      return &custom->row[i].row;
  return NULL;
}

static hd_status unknown(hd_ctx *ctx, const hd_yaml_node *where, const char *name) {
  char names[512];
  hd_line list = {.text = names, .bytes = sizeof names};
  hd_nearest nearest = {.word = name};
  for (int i = 0; i < ROWS; i++) {
    hd__line_add(&list, "%s%s", i ? ", " : "", table[i].name);
    hd__nearest_try(&nearest, table[i].name);
  }
  if (nearest.name)
    return hd__yaml_fail(ctx, where, "expected a transform, found '%.40s'; did you mean '%s'?", name, nearest.name);
  return hd__yaml_fail(ctx, where, "expected a transform, found '%.40s'; there are %s", name, names);
}

/* An entry is NAME, or NAME: VALUE, or NAME: {KEY: VALUE, ...}. */
hd_status hd__step_read(hd_transform_step *step, hd_ctx *ctx, const hd_yaml_node *entry) {
  const hd_yaml_node *param = NULL;
  const char *name = entry->text;
  if (entry->kind == HD_YAML_MAPPING && entry->count == 1) {
    param = &entry->item[0];
    name = param->key;
  } else if (entry->kind != HD_YAML_SCALAR || !*name) {
    return hd__yaml_fail(ctx, entry, "expected NAME or NAME: PARAMETERS as a transform, found %s; write one per line",
                         entry->kind == HD_YAML_SCALAR     ? "nothing"
                         : entry->kind == HD_YAML_SEQUENCE ? "a list"
                                                           : "a mapping of several names");
  }
  step->where = param ? param : entry;
  step->row = hd__transform_find(ctx, name);
  if (!step->row)
    return unknown(ctx, step->where, name);
  if (param && param->kind == HD_YAML_SCALAR && !*param->text)
    param = NULL;
  step->param = param;
  if (param && !step->row->params[0].key)
    return hd__yaml_fail(ctx, param, "expected %s without parameters, found some; leave them out", step->row->name);
  return hd__step_params(step, ctx);
}

hd_status hd__transforms_check(hd_ctx *ctx, const hd_yaml_node *list) {
  HD_TRY(hd__yaml_expect(ctx, list, HD_YAML_SEQUENCE, "transforms"));
  if (list->count <= MAX_LIST)
    return HD_OK;
  return hd__yaml_fail(ctx, list, "expected at most %d transforms, found %d; leave some out", MAX_LIST, list->count);
}

void hd__step_free(hd_transform_step *step) { hd__free(step->memory); }

/* ---- Writing ---- */

/* Values have been checked: they are words, numbers, and lists of numbers. */
static void append_value(hd_line *l, const hd_yaml_node *node) {
  if (node->kind == HD_YAML_SCALAR) {
    hd__line_add(l, "%s", node->text);
    return;
  }
  hd__line_add(l, "[");
  for (int i = 0; i < node->count; i++) {
    hd__line_add(l, i ? ", " : "");
    append_value(l, &node->item[i]);
  }
  hd__line_add(l, "]");
}

static void append_step(hd_line *l, const hd_transform_step *step) {
  const hd_transform *row = step->row;
  bool any = false;
  for (const hd_transform_param *p = row->params; p->key; p++) {
    const hd_yaml_node *value = hd__step_param(step, p->key);
    if (!value)
      continue;
    hd__line_add(l, any ? ", %s%s: " : "{%s: {%s: ", any ? "" : row->name, p->key);
    append_value(l, value);
    any = true;
  }
  hd__line_add(l, any ? "}}" : "%s", row->name);
}

hd_status hd__transforms_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *list, bool evaluation) {
  hd_line l = {.text = text, .bytes = bytes};
  HD_TRY(hd__transforms_check(ctx, list));
  hd__line_add(&l, "[");
  for (int i = 0; i < list->count; i++) {
    HD_RELEASED(hd__step_free) hd_transform_step step = {0};
    HD_TRY(hd__step_read(&step, ctx, &list->item[i]));
    if (evaluation && step.row->kind != HD_TRANSFORM_FIXED)
      return hd__yaml_fail(ctx, step.where, "expected no random transform in evaluation, found %s; %s", step.row->name,
                           step.row->kind == HD_TRANSFORM_MIDDLE ? "use centre_crop" : "leave it out");
    hd__line_add(&l, i ? ", " : "");
    append_step(&l, &step);
  }
  hd__line_add(&l, "]");
  if (l.length < bytes)
    return HD_OK;
  return hd__yaml_fail(ctx, list, "expected a list of at most %zu characters, found more; leave some out", bytes - 1);
}
