/* The table of transforms; reading a list, and writing it as one line. See transform_step.h. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text_buffer.h"
#include "data/transforms/transform.h"
#include "data/transforms/transform_step.h"

#define ROW(name) .read = hd__read_##name, .fit = hd__fit_##name, .apply = hd__apply_##name

static const hd_transform table[] = {
    {"to_float", "to_tensor", {NULL}, 0, HD_TRANSFORM_FIXED, HD_TOUCH_SCALES, ROW(to_float)},
    {"normalise", "normalize", {"mean", "std"}, 0, HD_TRANSFORM_FIXED, HD_TOUCH_SCALES, ROW(normalise)},
    {"resize", NULL, {"size", "interpolation", "antialias"}, 1, HD_TRANSFORM_FIXED, HD_TOUCH_RESIZES, ROW(resize)},
    {"pad", NULL, {"padding", "padding_mode", "fill"}, 1, HD_TRANSFORM_FIXED, HD_TOUCH_COMPUTES, ROW(pad)},
    {"random_crop",
     NULL,
     {"size", "padding", "padding_mode", "fill"},
     1,
     HD_TRANSFORM_MIDDLE,
     HD_TOUCH_CROPS,
     ROW(random_crop)},
    {"random_resized_crop",
     NULL,
     {"size", "scale", "ratio", "interpolation", "antialias"},
     1,
     HD_TRANSFORM_MIDDLE,
     HD_TOUCH_RESIZES,
     ROW(random_resized_crop)},
    {"centre_crop",
     "center_crop",
     {"size", "padding_mode", "fill"},
     1,
     HD_TRANSFORM_FIXED,
     HD_TOUCH_CROPS,
     ROW(centre_crop)},
    {"horizontal_flip", "random_horizontal_flip", {"p"}, 0, HD_TRANSFORM_RANDOM, HD_TOUCH_MOVES, ROW(horizontal_flip)},
    {"vertical_flip", "random_vertical_flip", {"p"}, 0, HD_TRANSFORM_RANDOM, HD_TOUCH_MOVES, ROW(vertical_flip)},
    {"rotation",
     "random_rotation",
     {"degrees", "interpolation", "fill"},
     1,
     HD_TRANSFORM_RANDOM,
     HD_TOUCH_COMPUTES,
     ROW(rotation)},
    {"affine",
     "random_affine",
     {"degrees", "translate", "scale", "shear", "interpolation", "fill"},
     1,
     HD_TRANSFORM_RANDOM,
     HD_TOUCH_COMPUTES,
     ROW(affine)},
    {"elastic",
     "elastic_transform",
     {"alpha", "sigma", "interpolation", "fill"},
     1,
     HD_TRANSFORM_RANDOM,
     HD_TOUCH_COMPUTES,
     ROW(elastic)},
    {"erase",
     "random_erasing",
     {"p", "scale", "ratio", "value"},
     0,
     HD_TRANSFORM_RANDOM,
     HD_TOUCH_COMPUTES,
     ROW(erase)},
    {"colour_jitter",
     "color_jitter",
     {"brightness", "contrast", "saturation", "hue"},
     0,
     HD_TRANSFORM_RANDOM,
     HD_TOUCH_COMPUTES,
     ROW(colour_jitter)},
    {"one_hot", NULL, {"classes", "smoothing"}, 0, HD_TRANSFORM_FIXED, HD_TOUCH_NOTHING, ROW(one_hot)},
    {"mixup", "mix_up", {"alpha", "p"}, 0, HD_TRANSFORM_RANDOM, HD_TOUCH_COMPUTES, ROW(mixup)},
};

enum { ROWS = sizeof table / sizeof *table, MAX_LIST = 64 };

/* ---- Reading a list ---- */

static const hd_transform *find_row(const char *name) {
  for (int i = 0; i < ROWS; i++)
    if (!strcmp(name, table[i].name) || (table[i].torchvision && !strcmp(name, table[i].torchvision)))
      return &table[i];
  return NULL;
}

static hd_status unknown(hd_ctx *ctx, const hd_yaml_node *where, const char *name) {
  char names[512];
  size_t at = 0;
  for (int i = 0; i < ROWS && at < sizeof names; i++)
    at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", table[i].name);
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
    return hd__yaml_fail(ctx, entry, "expected NAME or NAME: PARAMETERS as a transform, found %s; write one a line",
                         entry->kind == HD_YAML_SCALAR     ? "nothing"
                         : entry->kind == HD_YAML_SEQUENCE ? "a list"
                                                           : "a mapping of several names");
  }
  step->where = param ? param : entry;
  step->row = find_row(name);
  if (!step->row)
    return unknown(ctx, step->where, name);
  if (param && param->kind == HD_YAML_SCALAR && !*param->text)
    param = NULL;
  step->param = param;
  if (param && !step->row->keys[0])
    return hd__yaml_fail(ctx, param, "expected %s without parameters, found some; leave them out", step->row->name);
  if (param && param->kind == HD_YAML_MAPPING)
    HD_TRY(hd__yaml_only_keys(ctx, param, step->row->keys));
  if (step->row->required && !hd__step_param(step, step->row->keys[0]))
    return hd__yaml_fail(ctx, step->where, "expected '%s' of %s, found none; write '%s: {%s: VALUE}'",
                         step->row->keys[0], step->row->name, step->row->name, step->row->keys[0]);
  return step->row->read(step, ctx);
}

hd_status hd__transforms_check(hd_ctx *ctx, const hd_yaml_node *list) {
  HD_TRY(hd__yaml_expect(ctx, list, HD_YAML_SEQUENCE, "transforms"));
  if (list->count <= MAX_LIST)
    return HD_OK;
  return hd__yaml_fail(ctx, list, "expected at most %d transforms, found %d; leave some out", MAX_LIST, list->count);
}

const hd_yaml_node *hd__step_param(const hd_transform_step *step, const char *key) {
  if (!step->param)
    return NULL;
  if (step->param->kind == HD_YAML_MAPPING)
    return hd__yaml_get(step->param, key);
  return !strcmp(key, step->row->keys[0]) ? step->param : NULL;
}

hd_status hd__step_number(double *out, const hd_transform_step *step, hd_ctx *ctx, const char *key, double min,
                          double max) {
  const hd_yaml_node *node = hd__step_param(step, key);
  return node ? hd__yaml_number(out, ctx, node, min, max) : HD_OK;
}

hd_status hd__step_flag(bool *out, const hd_transform_step *step, hd_ctx *ctx, const char *key) {
  const hd_yaml_node *node = hd__step_param(step, key);
  return node ? hd__yaml_bool(out, ctx, node) : HD_OK;
}

hd_status hd__step_sides(int32_t out[2], const hd_transform_step *step, hd_ctx *ctx, const char *key, int64_t min,
                         int64_t max) {
  const hd_yaml_node *node = hd__step_param(step, key);
  int64_t side;
  if (!node)
    return HD_OK;
  if (node->kind == HD_YAML_MAPPING || (node->kind == HD_YAML_SEQUENCE && node->count != 2))
    return hd__yaml_fail(ctx, node, "expected one number or [height, width] as '%s' of %s, found %s; write N or [N, N]",
                         key, step->row->name, node->kind == HD_YAML_MAPPING ? "a mapping" : "another list");
  for (int i = 0; i < 2; i++) {
    HD_TRY(hd__yaml_int(&side, ctx, node->kind == HD_YAML_SEQUENCE ? &node->item[i] : node, min, max));
    out[i] = (int32_t)side;
  }
  return HD_OK;
}

hd_status hd__step_range(hd_range *out, const hd_transform_step *step, hd_ctx *ctx, const char *key, double middle,
                         double min, double max) {
  const hd_yaml_node *node = hd__step_param(step, key);
  if (!node)
    return HD_OK;
  if (node->kind == HD_YAML_SCALAR) {
    double x;
    HD_TRY(hd__yaml_number(&x, ctx, node, 0, max - middle));
    *out = (hd_range){middle - x < min ? min : middle - x, middle + x};
    return HD_OK;
  }
  if (node->kind == HD_YAML_MAPPING || node->count != 2)
    return hd__yaml_fail(ctx, node, "expected one number or [low, high] as '%s' of %s, found %s; write X or [X, Y]",
                         key, step->row->name, node->kind == HD_YAML_MAPPING ? "a mapping" : "another list");
  HD_TRY(hd__yaml_number(&out->low, ctx, &node->item[0], min, max));
  HD_TRY(hd__yaml_number(&out->high, ctx, &node->item[1], min, max));
  if (out->low <= out->high)
    return HD_OK;
  return hd__yaml_fail(ctx, node, "expected [low, high] as '%s' of %s, found %g before %g; exchange them", key,
                       step->row->name, out->low, out->high);
}

/* The index of a word in a list. */
static hd_status choice(int *out, const hd_transform_step *step, hd_ctx *ctx, const char *key,
                        const char *const *words) {
  const hd_yaml_node *node = hd__step_param(step, key);
  const char *word;
  char all[80] = "";
  if (!node)
    return HD_OK;
  HD_TRY(hd__yaml_text(&word, ctx, node));
  for (int i = 0; words[i]; i++) {
    if (!strcmp(word, words[i])) {
      *out = i;
      return HD_OK;
    }
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", words[i]);
  }
  return hd__yaml_fail(ctx, node, "expected one of %s as '%s', found '%.40s'; write one of them", all, key, word);
}

hd_status hd__step_border(hd_transform_step *step, hd_ctx *ctx) {
  static const char *const words[] = {"constant", "reflect", "edge", NULL};
  int border = HD_BORDER_CONSTANT;
  HD_TRY(choice(&border, step, ctx, "padding_mode", words));
  step->border = (hd_border)border;
  HD_TRY(hd__step_number(&step->fill, step, ctx, "fill", -1e6, 1e6));
  const hd_yaml_node *fill = hd__step_param(step, "fill");
  if (fill && step->border != HD_BORDER_CONSTANT)
    return hd__yaml_fail(ctx, fill,
                         "expected 'fill' with 'padding_mode: constant' alone, found it with %s; leave it out",
                         words[border]);
  return HD_OK;
}

hd_status hd__step_interpolation(hd_transform_step *step, hd_ctx *ctx) {
  static const char *const words[] = {"bilinear", "nearest", NULL};
  int word = 0;
  HD_TRY(choice(&word, step, ctx, "interpolation", words));
  step->nearest = word;
  return HD_OK;
}

/* ---- A list as text ---- */

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
  for (int k = 0; k < HD_TRANSFORM_MAX_KEYS && row->keys[k]; k++) {
    const hd_yaml_node *value = hd__step_param(step, row->keys[k]);
    if (!value)
      continue;
    hd__line_add(l, any ? ", %s%s: " : "{%s: {%s: ", any ? "" : row->name, row->keys[k]);
    append_value(l, value);
    any = true;
  }
  hd__line_add(l, any ? "}}" : "%s", row->name);
}

void hd__step_free(hd_transform_step *step) { hd__free(step->weight); }

hd_status hd__transforms_text(char *text, size_t bytes, hd_ctx *ctx, const hd_yaml_node *list, bool evaluation) {
  hd_line l = {.text = text, .bytes = bytes};
  HD_TRY(hd__transforms_check(ctx, list));
  hd__line_add(&l, "[");
  for (int i = 0; i < list->count; i++) {
    hd_transform_step step = {0};
    hd_status status = hd__step_read(&step, ctx, &list->item[i]);
    hd__step_free(&step);
    HD_TRY(status);
    if (evaluation && step.row->kind != HD_TRANSFORM_FIXED)
      return hd__yaml_fail(ctx, step.where, "expected nothing random in evaluation, found %s; %s", step.row->name,
                           step.row->kind == HD_TRANSFORM_MIDDLE ? "use centre_crop" : "leave it out");
    hd__line_add(&l, i ? ", " : "");
    append_step(&l, &step);
  }
  hd__line_add(&l, "]");
  if (l.length < bytes)
    return HD_OK;
  return hd__yaml_fail(ctx, list, "expected a list of at most %zu characters, found more; leave some out", bytes - 1);
}
