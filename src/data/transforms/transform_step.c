/* Reading the parameters of a step by its row of the table: see transform_step.h. */
#include "data/transforms/transform_step.h"

#include <string.h>

#include "base/text_buffer.h"

const hd_yaml_node *hd__step_param(const hd_transform_step *step, const char *key) {
  if (!step->param)
    return NULL;
  if (step->param->kind == HD_YAML_MAPPING)
    return hd__yaml_get(step->param, key);
  return !strcmp(key, step->row->params[0].key) ? step->param : NULL;
}

/* One number for both sides, or [height, width]. */
static hd_status read_sides(int32_t out[2], const hd_transform_step *step, hd_ctx *ctx, const hd_transform_param *p,
                            const hd_yaml_node *node) {
  int64_t side;
  if (node->kind == HD_YAML_MAPPING || (node->kind == HD_YAML_SEQUENCE && node->count != 2))
    return hd__yaml_fail(ctx, node, "expected one number or [height, width] as '%s' of %s, found %s; write N or [N, N]",
                         p->key, step->row->name, node->kind == HD_YAML_MAPPING ? "a mapping" : "another list");
  for (int i = 0; i < 2; i++) {
    HD_TRY(hd__yaml_int(&side, ctx, node->kind == HD_YAML_SEQUENCE ? &node->item[i] : node, (int64_t)p->bounds.low,
                        (int64_t)p->bounds.high));
    out[i] = (int32_t)side;
  }
  return HD_OK;
}

/* [low, high], or one number x for [middle - x, middle + x], clamped to the lower bound. */
hd_status hd__step_range(hd_range *out, const hd_transform_step *step, hd_ctx *ctx, const hd_transform_param *p,
                         const hd_yaml_node *node) {
  const double min = p->bounds.low, max = p->bounds.high, middle = p->middle;
  if (node->kind == HD_YAML_SCALAR) {
    double x;
    HD_TRY(hd__yaml_number(&x, ctx, node, 0, max - middle));
    *out = (hd_range){middle - x < min ? min : middle - x, middle + x};
    return HD_OK;
  }
  if (node->kind == HD_YAML_MAPPING || node->count != 2)
    return hd__yaml_fail(ctx, node, "expected one number or [low, high] as '%s' of %s, found %s; write X or [X, Y]",
                         p->key, step->row->name, node->kind == HD_YAML_MAPPING ? "a mapping" : "another list");
  HD_TRY(hd__yaml_number(&out->low, ctx, &node->item[0], min, max));
  HD_TRY(hd__yaml_number(&out->high, ctx, &node->item[1], min, max));
  if (out->low <= out->high)
    return HD_OK;
  return hd__yaml_fail(ctx, node, "expected [low, high] as '%s' of %s, found %g before %g; swap them", p->key,
                       step->row->name, out->low, out->high);
}

/* The index of a word in a list. */
static hd_status read_word(int *out, hd_ctx *ctx, const hd_transform_param *p, const hd_yaml_node *node) {
  const char *word;
  char all[80] = "";
  hd_line list = {.text = all, .bytes = sizeof all};
  HD_TRY(hd__yaml_text(&word, ctx, node));
  for (int i = 0; p->words[i]; i++) {
    if (!strcmp(word, p->words[i])) {
      *out = i;
      return HD_OK;
    }
    hd__line_add(&list, "%s%s", i ? ", " : "", p->words[i]);
  }
  return hd__yaml_fail(ctx, node, "expected one of %s as '%s', found '%.40s'; write one of them", all, p->key, word);
}

static hd_status read_param(hd_transform_step *step, hd_ctx *ctx, const hd_transform_param *p) {
  const hd_yaml_node *node = hd__step_param(step, p->key);
  void *const field = (char *)step + p->offset;
  int64_t whole;
  switch (p->type) {
  case HD_PARAM_NUMBER:
    *(double *)field = p->without.low;
    return node ? hd__yaml_number(field, ctx, node, p->bounds.low, p->bounds.high) : HD_OK;
  case HD_PARAM_RANGE: *(hd_range *)field = p->without; return node ? hd__step_range(field, step, ctx, p, node) : HD_OK;
  case HD_PARAM_FLAG: *(bool *)field = p->without.low != 0; return node ? hd__yaml_bool(field, ctx, node) : HD_OK;
  case HD_PARAM_SIDES: return node ? read_sides(field, step, ctx, p, node) : HD_OK;
  case HD_PARAM_WORD: *(int *)field = (int)p->without.low; return node ? read_word(field, ctx, p, node) : HD_OK;
  case HD_PARAM_WHOLE:
    if (!node)
      return HD_OK;
    HD_TRY(hd__yaml_int(&whole, ctx, node, (int64_t)p->bounds.low, (int64_t)p->bounds.high));
    *(int32_t *)field = (int32_t)whole;
    return HD_OK;
  case HD_PARAM_OTHER: return HD_OK;
  }
  return HD_OK;
}

hd_status hd__step_params(hd_transform_step *step, hd_ctx *ctx) {
  const char *keys[HD_TRANSFORM_MAX_PARAMS + 1] = {NULL};
  const hd_transform_param *p = step->row->params;
  for (int i = 0; i < HD_TRANSFORM_MAX_PARAMS; i++)
    keys[i] = p[i].key;
  if (step->param && step->param->kind == HD_YAML_MAPPING)
    HD_TRY(hd__yaml_only_keys(ctx, step->param, keys));
  if (step->row->required && !hd__step_param(step, keys[0]))
    return hd__yaml_fail(ctx, step->where, "expected '%s' of %s, found none; write '%s: {%s: VALUE}'", keys[0],
                         step->row->name, step->row->name, keys[0]);
  for (int i = 0; keys[i]; i++)
    HD_TRY(read_param(step, ctx, &p[i]));
  return step->row->check ? step->row->check(step, ctx) : HD_OK;
}
