/* Reading the parameters of a step, and checks while it is fitted; see transform_step.h. */
#include "data/transforms/transform_step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

hd_status hd__fit_fill(const hd_transform_step *step, const hd_transform_fit *fit, double value, const char *key) {
  if (!fit->shape.bytes || (value >= 0 && value <= 255 && value == floor(value)))
    return HD_OK;
  return hd__yaml_fail(fit->ctx, step->where,
                       "expected a whole number from 0 to 255 as '%s' of %s, found %g; change it, or put to_float "
                       "before it",
                       key, step->row->name, value);
}

void hd__fit_work(hd_transform_fit *fit, size_t bytes) {
  if (bytes > fit->work_bytes)
    fit->work_bytes = bytes;
}
