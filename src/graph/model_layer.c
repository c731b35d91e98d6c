/* Reads a layer's settings: see model_layer.h. */
#include "graph/model_layer.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text_buffer.h"
#include "graph/custom_ops.h"

const char *hd__layer_found(char *text, size_t bytes, const hd_yaml_node *node) {
  if (node->kind == HD_YAML_SCALAR)
    snprintf(text, bytes, "'%.40s'", node->text);
  else if (node->kind == HD_YAML_SEQUENCE)
    snprintf(text, bytes, "a list of %d", node->count);
  else
    snprintf(text, bytes, "a mapping");
  return text;
}

/* One number for both sides, or a list of two. */
static hd_status read_sides(int32_t sides[2], hd_ctx *ctx, const hd_yaml_node *node, const hd_op_setting *setting) {
  const int64_t min = (int64_t)setting->low, max = (int64_t)setting->high;
  int64_t number;
  char text[HD_LAYER_FOUND_BYTES];
  if (node->kind == HD_YAML_SCALAR) {
    HD_TRY(hd__yaml_int(&number, ctx, node, min, max));
    sides[0] = sides[1] = (int32_t)number;
    return HD_OK;
  }
  if (node->kind != HD_YAML_SEQUENCE || node->count != 2)
    return hd__yaml_fail(ctx, node, "expected one number or two [height, width] as '%s', found %s; write N or [N, N]",
                         node->key, hd__layer_found(text, sizeof text, node));
  for (int i = 0; i < 2; i++) {
    HD_TRY(hd__yaml_int(&number, ctx, &node->item[i], min, max));
    sides[i] = (int32_t)number;
  }
  return HD_OK;
}

static hd_status read_choice(int32_t *out, hd_ctx *ctx, const hd_yaml_node *node, const hd_op_setting *setting) {
  const char *text, *const *name = setting->choices;
  char all[80] = "";
  hd_line list = {.text = all, .bytes = sizeof all};
  hd_nearest nearest = {0};
  HD_TRY(hd__yaml_text(&text, ctx, node));
  nearest.word = text;
  for (int i = 0; name[i]; i++) {
    if (!strcmp(text, name[i])) {
      *out = i;
      return HD_OK;
    }
    hd__line_add(&list, "%s%s", i == 0 ? "" : name[i + 1] ? ", " : " or ", name[i]);
    hd__nearest_try(&nearest, name[i]);
  }
  if (nearest.name)
    return hd__yaml_fail(ctx, node, "expected %s as '%s', found '%.40s'; did you mean '%s'?", all, setting->key, text,
                         nearest.name);
  return hd__yaml_fail(ctx, node, "expected %s as '%s', found '%.40s'; write one of them", all, setting->key, text);
}

static hd_status read_setting(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node, const hd_op_setting *setting) {
  void *field = (char *)attrs + setting->field;
  int64_t whole;
  double number;
  bool flag;
  switch (setting->type) {
  case HD_SETTING_INT:
    HD_TRY(hd__yaml_int(&whole, ctx, node, (int64_t)setting->low, (int64_t)setting->high));
    *(int32_t *)field = (int32_t)whole;
    return HD_OK;
  case HD_SETTING_FLAG:
    HD_TRY(hd__yaml_bool(&flag, ctx, node));
    *(int32_t *)field = flag;
    return HD_OK;
  case HD_SETTING_REAL:
    HD_TRY(hd__yaml_number(&number, ctx, node, setting->low, setting->high));
    *(float *)field = (float)number;
    if (number != 0 && fabsf(*(float *)field) < FLT_MIN)
      return hd__yaml_fail(ctx, node,
                           "expected 0 or a number whose size is at least 1.2e-38 as '%s', found '%.40s'; write 0",
                           setting->key, node->text);
    return HD_OK;
  case HD_SETTING_SIDES: return read_sides(field, ctx, node, setting);
  case HD_SETTING_CHOICE: return read_choice(field, ctx, node, setting);
  case HD_SETTING_LAYER:
  case HD_SETTING_WEIGHTS: break;
  }
  return HD_OK;
}

/* Appends what the setting is to the message of an error. */
static hd_status explain(hd_ctx *ctx, hd_status status, const hd_op_setting *setting) {
  char message[HD_MESSAGE_BYTES];
  snprintf(message, sizeof message, "%s", hd_ctx_message(ctx));
  return hd__fail(ctx, status, "%s ('%s': %s)", message, setting->key, setting->help);
}

hd_status hd__layer_settings(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node, const hd_op_setting *settings,
                             const char *kind) {
  for (const hd_op_setting *s = settings; s && s->key; s++) {
    const hd_yaml_node *given = hd__yaml_get(node, s->key);
    hd_status status = HD_OK;
    if (given)
      status = read_setting(attrs, ctx, given, s);
    else if (s->required)
      status = hd__yaml_fail(ctx, node, "expected '%s: N' in a %s layer, found none; add it", s->key, kind);
    if (status != HD_OK)
      return explain(ctx, status, s);
  }
  return HD_OK;
}

hd_status hd__layer_only_keys(hd_ctx *ctx, const hd_yaml_node *node, const char *const *more,
                              const hd_op_setting *settings) {
  const char *known[16] = {NULL};
  size_t count = 0;
  for (; *more; more++)
    known[count++] = *more;
  for (const hd_op_setting *s = settings; s && s->key && count < sizeof known / sizeof *known - 1; s++)
    known[count++] = s->key;
  return hd__yaml_only_keys(ctx, node, known);
}

/* Whether model files may name it as a layer. */
static bool is_layer(hd_op op) {
  const hd_op_info *info = op < HD_OP_COUNT ? hd__op_info(op) : NULL;
  return info && info->rule && info->role == HD_ROLE_FORWARD && info->rule->most > 0;
}

/* "conv2d, ... or softmax". */
static void list_layers(char *list, size_t bytes) {
  hd_line l = {.text = list, .bytes = bytes};
  hd_op last = HD_OP_COUNT - 1;
  while (!is_layer(last))
    last--;
  for (hd_op op = 0; op <= last; op++)
    if (is_layer(op))
      hd__line_add(&l, "%s%s", l.length == 0 ? "" : op == last ? " or " : ", ", hd__op_info(op)->name);
}

/* Down, a layer over signals does nothing: each setting of two sides is its smallest number there. */
static hd_status lay_along(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *layer, const hd_op_setting *settings) {
  for (const hd_op_setting *s = settings; s->key; s++) {
    const hd_yaml_node *given = hd__yaml_get(layer, s->key);
    if (s->type != HD_SETTING_SIDES)
      continue;
    if (given && given->kind != HD_YAML_SCALAR)
      return hd__yaml_fail(ctx, given, "expected one number as '%s' for op '%s', found a list; write N", s->key,
                           hd__yaml_get(layer, "op")->text);
    *(int32_t *)(void *)((char *)attrs + s->field) = (int32_t)s->low;
  }
  return HD_OK;
}

hd_status hd__layer_form(hd_layer_form *out, hd_ctx *ctx, const hd_yaml_node *layer) {
  const hd_yaml_node *node = hd__yaml_get(layer, "op");
  const char *name;
  char list[900] = "";
  if (!node)
    return hd__yaml_fail(ctx, layer, "expected 'op: NAME' in layer '%s', found none; add it", layer->key);
  HD_TRY(hd__yaml_text(&name, ctx, node));
  const hd_op over_line = hd__op_find_line(name);
  const bool line = over_line < HD_OP_COUNT;
  const hd_op op = line ? over_line : hd__op_find(name);
  if (is_layer(op)) {
    const hd_op_rule *rule = hd__op_info(op)->rule;
    *out = (hd_layer_form){op, rule->fewest, rule->most, rule->settings, line};
    return HD_OK;
  }
  const hd_custom_op *custom_op = hd__custom_op_find(ctx, name);
  if (custom_op) {
    *out = (hd_layer_form){HD_OP_custom, custom_op->inputs, custom_op->inputs, NULL, false};
    return HD_OK;
  }
  hd_nearest nearest = {.word = name};
  for (hd_op other = 0; other < HD_OP_COUNT; other++)
    if (is_layer(other))
      hd__nearest_try(&nearest, hd__op_info(other)->name);
  if (nearest.name)
    return hd__yaml_fail(ctx, node, "expected an operation, found '%.60s'; did you mean '%s'?", name, nearest.name);
  list_layers(list, sizeof list);
  return hd__yaml_fail(ctx, node, "expected an operation, found '%s'; use %s", name, list);
}

hd_status hd__layer_attrs(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *layer, const hd_layer_form *form) {
  static const char *const more[] = {"op", "from", "stage", NULL};
  hd__op_defaults(attrs, form->settings);
  if (form->op == HD_OP_custom)
    attrs->custom_op = hd__custom_op_find(ctx, hd__yaml_get(layer, "op")->text);
  HD_TRY(hd__layer_only_keys(ctx, layer, more, form->settings));
  HD_TRY(hd__layer_settings(attrs, ctx, layer, form->settings, hd__op_info(form->op)->name));
  return form->line ? lay_along(attrs, ctx, layer, form->settings) : HD_OK;
}
