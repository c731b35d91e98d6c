/* Reads a layer's settings: see model_layer.h. */
#include "graph/model_layer.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "graph/custom_ops.h"
#include "graph/op.h"

static const hd_layer_form forms[] = {
#define OP(name, class)
#define LAYER(name, class, fewest, most, required, ...) {HD_OP_##name, fewest, most, required, {__VA_ARGS__}},
#define ELEMENTWISE(name, reads, flops, dx_flops, ...) {HD_OP_##name, 1, 1, 0, {__VA_ARGS__}},
#include "kernel/ops.def"
};

enum { FORM_COUNT = sizeof forms / sizeof *forms };

/* Custom operations, by their number of inputs. */
static const hd_layer_form custom_forms[] = {{.op = HD_OP_custom, .min_inputs = 1, .max_inputs = 1},
                                             {.op = HD_OP_custom, .min_inputs = 2, .max_inputs = 2}};

const char *hd__layer_found(char *text, size_t bytes, const hd_yaml_node *node) {
  if (node->kind == HD_YAML_SCALAR)
    snprintf(text, bytes, "'%.40s'", node->text);
  else if (node->kind == HD_YAML_SEQUENCE)
    snprintf(text, bytes, "a list of %d", node->count);
  else
    snprintf(text, bytes, "a mapping");
  return text;
}

static hd_status read_out(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  int64_t number;
  HD_TRY(hd__yaml_int(&number, ctx, node, 1, 1 << 20));
  attrs->out = (int32_t)number;
  return HD_OK;
}

static hd_status read_flag(int32_t *flag, hd_ctx *ctx, const hd_yaml_node *node) {
  bool given;
  HD_TRY(hd__yaml_bool(&given, ctx, node));
  *flag = given;
  return HD_OK;
}

static hd_status read_bias(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_flag(&attrs->bias, ctx, node);
}

static hd_status read_count_include_pad(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_flag(&attrs->count_include_pad, ctx, node);
}

/* One number for both sides, or a list of two. */
static hd_status read_sides(int32_t sides[2], hd_ctx *ctx, const hd_yaml_node *node, int64_t min, int64_t max) {
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

static hd_status read_kernel(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_sides(attrs->kernel, ctx, node, 1, 1024);
}

static hd_status read_stride(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_sides(attrs->stride, ctx, node, 1, 1024);
}

static hd_status read_padding(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_sides(attrs->padding, ctx, node, 0, 1024);
}

static hd_status read_groups(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  int64_t number;
  HD_TRY(hd__yaml_int(&number, ctx, node, 1, 1 << 20));
  attrs->groups = (int32_t)number;
  return HD_OK;
}

static hd_status read_approximate(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  const char *form;
  HD_TRY(hd__yaml_text(&form, ctx, node));
  attrs->approximate = !strcmp(form, "tanh");
  if (!attrs->approximate && strcmp(form, "none"))
    return hd__yaml_fail(ctx, node, "expected none or tanh as 'approximate', found '%s'; write one of the two", form);
  return HD_OK;
}

static hd_status read_real(float *out, hd_ctx *ctx, const hd_yaml_node *node, double min, double max) {
  double number;
  HD_TRY(hd__yaml_number(&number, ctx, node, min, max));
  *out = (float)number;
  return HD_OK;
}

static hd_status read_negative_slope(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_real(&attrs->negative_slope, ctx, node, 0, 1e6);
}

static hd_status read_eps(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_real(&attrs->eps, ctx, node, 0, 1);
}

static hd_status read_momentum(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_real(&attrs->momentum, ctx, node, 0, 1);
}

static hd_status read_stats(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  const char *of;
  HD_TRY(hd__yaml_text(&of, ctx, node));
  attrs->shard_stats = !strcmp(of, "shard");
  if (!attrs->shard_stats && strcmp(of, "batch"))
    return hd__yaml_fail(ctx, node, "expected batch or shard as 'stats', found '%s'; write one of the two", of);
  return HD_OK;
}

static hd_status read_p(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) {
  return read_real(&attrs->p, ctx, node, 0, 1);
}

/* Names another layer, so model.c reads it. */
static hd_status read_share(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node) { return HD_OK; }

static const struct {
  const char *key;
  hd_status (*read)(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *node);
  const char *example; /* of a setting that may be required */
} settings[] = {
    {"out", read_out, "'out: N'"},
    {"kernel", read_kernel, "'kernel: N'"},
    {"stride", read_stride, NULL},
    {"padding", read_padding, NULL},
    {"groups", read_groups, NULL},
    {"bias", read_bias, NULL},
    {"share", read_share, NULL},
    {"negative_slope", read_negative_slope, NULL},
    {"approximate", read_approximate, NULL},
    {"eps", read_eps, NULL},
    {"momentum", read_momentum, NULL},
    {"stats", read_stats, NULL},
    {"p", read_p, NULL},
    {"count_include_pad", read_count_include_pad, NULL},
};

enum { SETTING_COUNT = sizeof settings / sizeof *settings };

static int find_setting(const char *key) {
  int i = 0;
  while (i < SETTING_COUNT - 1 && strcmp(settings[i].key, key))
    i++;
  assert(!strcmp(settings[i].key, key)); /* ops.def names a setting without a reader here */
  return i;
}

hd_status hd__layer_form(const hd_layer_form **out, hd_ctx *ctx, const hd_yaml_node *layer) {
  const hd_yaml_node *node = hd__yaml_get(layer, "op");
  const char *name;
  char list[512] = "";
  if (!node)
    return hd__yaml_fail(ctx, layer, "expected 'op: NAME' in layer '%s', found none; add it", layer->key);
  HD_TRY(hd__yaml_text(&name, ctx, node));
  size_t at = 0;
  for (int i = 0; i < FORM_COUNT; i++) {
    const char *known = hd__op_info(forms[i].op)->name;
    *out = &forms[i];
    if (!strcmp(known, name))
      return HD_OK;
    if (at < sizeof list)
      at += (size_t)snprintf(list + at, sizeof list - at, "%s%s",
                             i == 0               ? ""
                             : i < FORM_COUNT - 1 ? ", "
                                                  : " or ",
                             known);
  }
  const hd_custom_op *custom_op = hd__custom_op_find(ctx, name);
  if (custom_op) {
    *out = &custom_forms[custom_op->inputs - 1];
    return HD_OK;
  }
  return hd__yaml_fail(ctx, node, "expected an operation, found '%s'; use %s", name, list);
}

static hd_status only_known_keys(hd_ctx *ctx, const hd_yaml_node *layer, const hd_layer_form *form) {
  const char *known[HD_LAYER_MAX_KEYS + 3] = {"op", "from"};
  for (int i = 0; i < HD_LAYER_MAX_KEYS && form->keys[i]; i++)
    known[i + 2] = form->keys[i];
  return hd__yaml_only_keys(ctx, layer, known);
}

hd_status hd__layer_attrs(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *layer, const hd_layer_form *form) {
  *attrs = (hd_attrs){.kernel = {1, 1},
                      .groups = 1,
                      .bias = 1,
                      .count_include_pad = 1,
                      .negative_slope = 0.01f,
                      .p = 0.5f,
                      .eps = 1e-5f,
                      .momentum = 0.1f};
  if (form->op == HD_OP_custom)
    attrs->custom_op = hd__custom_op_find(ctx, hd__yaml_get(layer, "op")->text);
  HD_TRY(only_known_keys(ctx, layer, form));
  for (int i = 0; i < HD_LAYER_MAX_KEYS && form->keys[i]; i++) {
    int which = find_setting(form->keys[i]);
    const hd_yaml_node *node = hd__yaml_get(layer, form->keys[i]);
    if (node)
      HD_TRY(settings[which].read(attrs, ctx, node));
    else if (i < form->required)
      return hd__yaml_fail(ctx, layer, "expected %s in a %s layer, found none; add it", settings[which].example,
                           hd__op_info(form->op)->name);
  }
  return HD_OK;
}
