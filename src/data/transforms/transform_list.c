/* The table of kinds of transforms, and reading a list; see transform_kinds.h. */
#include "data/transforms/transform_kinds.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

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

void hd__step_free(hd_transform_step *step) { hd__free(step->weight); }
