/* The table of kinds of transforms, and reading a list; see transform_step.h. */
#include "data/transforms/transform_step.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

#define KIND(name, torchvision, required, kind, touch, ...)                                                            \
  {                                                                                                                    \
#name, torchvision,                                                                                                \
        {__VA_ARGS__ }, required, HD_TRANSFORM_##kind, HD_TOUCH_##touch, hd__read_##name, hd__fit_##name,              \
         hd__apply_##name                                                                                              \
  }

/* clang-format off */
static const hd_transform table[] = {
    KIND(to_float, "to_tensor", 0, FIXED, SCALES, NULL),
    KIND(normalise, "normalize", 0, FIXED, SCALES, "mean", "std"),
    KIND(resize, NULL, 1, FIXED, RESIZES, "size", "interpolation", "antialias"),
    KIND(pad, NULL, 1, FIXED, COMPUTES, "padding", "padding_mode", "fill"),
    KIND(random_crop, NULL, 1, MIDDLE, CROPS, "size", "padding", "padding_mode", "fill"),
    KIND(random_resized_crop, NULL, 1, MIDDLE, RESIZES, "size", "scale", "ratio", "interpolation", "antialias"),
    KIND(centre_crop, "center_crop", 1, FIXED, CROPS, "size", "padding_mode", "fill"),
    KIND(horizontal_flip, "random_horizontal_flip", 0, RANDOM, MOVES, "p"),
    KIND(vertical_flip, "random_vertical_flip", 0, RANDOM, MOVES, "p"),
    KIND(rotation, "random_rotation", 1, RANDOM, COMPUTES, "degrees", "interpolation", "fill"),
    KIND(affine, "random_affine", 1, RANDOM, COMPUTES, "degrees", "translate", "scale", "shear", "interpolation", "fill"),
    KIND(elastic, "elastic_transform", 1, RANDOM, COMPUTES, "alpha", "sigma", "interpolation", "fill"),
    KIND(erase, "random_erasing", 0, RANDOM, COMPUTES, "p", "scale", "ratio", "value"),
    KIND(colour_jitter, "color_jitter", 0, RANDOM, COMPUTES, "brightness", "contrast", "saturation", "hue"),
    KIND(one_hot, NULL, 0, FIXED, NOTHING, "classes", "smoothing"),
    KIND(mixup, "mix_up", 0, RANDOM, COMPUTES, "alpha", "p"),
};
/* clang-format on */
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
