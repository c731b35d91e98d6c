/* Reading model files. Every error says FILE:LINE, what was expected, what was found. */
#include "graph/model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/yaml_bind.h"
#include "graph/op.h"

enum { MAX_SIDE = 65535, MAX_LAYERS = 1000, FOUND_TEXT_BYTES = 64 };

/* Names of layers and the values they make. */
typedef struct parser {
  hd_ctx *ctx;
  hd_graph *graph;
  const char **name;
  int *value;
  const hd_yaml_node **node;
  int count;
} parser;

static int find_layer(const parser *p, const char *name) {
  for (int i = 0; i < p->count; i++)
    if (!strcmp(p->name[i], name))
      return i;
  return -1;
}

/* What stands where a list of numbers or names should: "'3'", "a list of 3", "a mapping". */
static const char *found_text(char text[FOUND_TEXT_BYTES], const hd_yaml_node *node) {
  if (node->kind == HD_YAML_SCALAR)
    snprintf(text, FOUND_TEXT_BYTES, "'%.40s'", node->text);
  else if (node->kind == HD_YAML_SEQUENCE)
    snprintf(text, FOUND_TEXT_BYTES, "a list of %d", node->count);
  else
    snprintf(text, FOUND_TEXT_BYTES, "a mapping");
  return text;
}

/* One number for both sides, or a list of two. */
static hd_status read_sides(int32_t sides[2], hd_ctx *ctx, const hd_yaml_node *node, int64_t min, int64_t max) {
  int64_t number;
  char text[FOUND_TEXT_BYTES];
  if (node->kind == HD_YAML_SCALAR) {
    HD_TRY(hd__yaml_int(&number, ctx, node, min, max));
    sides[0] = sides[1] = (int32_t)number;
    return HD_OK;
  }
  if (node->kind != HD_YAML_SEQUENCE || node->count != 2)
    return hd__yaml_fail(ctx, node, "expected one number or two [height, width] as '%s', found %s; write N or [N, N]",
                         node->key, found_text(text, node));
  for (int i = 0; i < 2; i++) {
    HD_TRY(hd__yaml_int(&number, ctx, &node->item[i], min, max));
    sides[i] = (int32_t)number;
  }
  return HD_OK;
}

static hd_status read_window(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *layer, hd_op op) {
  const hd_yaml_node *kernel = hd__yaml_get(layer, "kernel"), *stride = hd__yaml_get(layer, "stride");
  const hd_yaml_node *padding = hd__yaml_get(layer, "padding");
  if (!kernel)
    return hd__yaml_fail(ctx, layer, "expected 'kernel: N' in a %s layer, found none; add it", hd__op_info(op)->name);
  HD_TRY(read_sides(attrs->kernel, ctx, kernel, 1, 1024));
  if (op == HD_OP_max_pool2d)
    memcpy(attrs->stride, attrs->kernel, sizeof attrs->stride);
  if (stride)
    HD_TRY(read_sides(attrs->stride, ctx, stride, 1, 1024));
  if (padding)
    HD_TRY(read_sides(attrs->padding, ctx, padding, 0, 1024));
  return HD_OK;
}

static hd_status read_outputs(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *layer) {
  const hd_yaml_node *out = hd__yaml_get(layer, "out"), *bias = hd__yaml_get(layer, "bias");
  int64_t number;
  bool with_bias = true;
  if (!out)
    return hd__yaml_fail(ctx, layer, "expected 'out: N' (how many outputs), found none; add it");
  HD_TRY(hd__yaml_int(&number, ctx, out, 1, 1 << 20));
  attrs->out = (int32_t)number;
  if (bias)
    HD_TRY(hd__yaml_bool(&with_bias, ctx, bias));
  attrs->bias = with_bias;
  return HD_OK;
}

static hd_status read_attrs(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *layer, hd_op op) {
  static const char *const conv[] = {"op", "from", "out", "kernel", "stride", "padding", "bias", NULL};
  static const char *const pool[] = {"op", "from", "kernel", "stride", "padding", NULL};
  static const char *const linear[] = {"op", "from", "out", "bias", NULL};
  static const char *const plain[] = {"op", "from", NULL};
  *attrs = (hd_attrs){.stride = {1, 1}, .kernel = {1, 1}};
  HD_TRY(hd__yaml_only_keys(ctx, layer,
                            op == HD_OP_conv2d       ? conv
                            : op == HD_OP_max_pool2d ? pool
                            : op == HD_OP_linear     ? linear
                                                     : plain));
  if (op == HD_OP_conv2d || op == HD_OP_linear)
    HD_TRY(read_outputs(attrs, ctx, layer));
  if (op == HD_OP_conv2d || op == HD_OP_max_pool2d)
    HD_TRY(read_window(attrs, ctx, layer, op));
  return HD_OK;
}

static hd_status input_of(int *value, const parser *p, const hd_yaml_node *node) {
  const char *name;
  HD_TRY(hd__yaml_text(&name, p->ctx, node));
  if (!strcmp(name, "input")) {
    *value = p->graph->input;
    return HD_OK;
  }
  int layer = find_layer(p, name);
  if (layer < 0)
    return hd__yaml_fail(p->ctx, node,
                         "expected the name of a layer above, found '%s'; name 'input' or an earlier layer", name);
  *value = p->value[layer];
  return HD_OK;
}

/* The values a layer reads: what `from` names, else the layer above. */
static hd_status read_inputs(int in[HD_MAX_IN], const parser *p, const hd_yaml_node *layer, hd_op op) {
  const hd_yaml_node *from = hd__yaml_get(layer, "from");
  char text[FOUND_TEXT_BYTES];
  int wanted = op == HD_OP_add ? 2 : 1;
  if (!from && wanted == 2)
    return hd__yaml_fail(p->ctx, layer, "expected 'from: [A, B]' in an add layer, found none; add it");
  if (!from) {
    in[0] = p->count ? p->value[p->count - 1] : p->graph->input;
    return HD_OK;
  }
  if (wanted == 1)
    return input_of(&in[0], p, from);
  if (from->kind != HD_YAML_SEQUENCE || from->count != 2)
    return hd__yaml_fail(p->ctx, from, "expected two names [A, B] as 'from' of an add layer, found %s; name two layers",
                         found_text(text, from));
  HD_TRY(input_of(&in[0], p, &from->item[0]));
  return input_of(&in[1], p, &from->item[1]);
}

static hd_status read_op(hd_op *op, hd_ctx *ctx, const hd_yaml_node *layer) {
  const hd_yaml_node *node = hd__yaml_get(layer, "op");
  const char *name;
  if (!node)
    return hd__yaml_fail(ctx, layer, "expected 'op: NAME' in layer '%s', found none; add it", layer->key);
  HD_TRY(hd__yaml_text(&name, ctx, node));
  *op = hd__op_by_name(name);
  if (*op == HD_OP_COUNT)
    return hd__yaml_fail(
        ctx, node, "expected an operation, found '%s'; use conv2d, max_pool2d, linear, relu, flatten or add", name);
  return HD_OK;
}

static hd_status check_name(const parser *p, const hd_yaml_node *layer) {
  size_t length = strlen(layer->key);
  if (length == 0 || length > 64 ||
      strspn(layer->key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != length)
    return hd__yaml_fail(p->ctx, layer,
                         "expected a layer name of 1 to 64 letters, digits, '_', '-' and '.', found '%s'; rename it",
                         layer->key);
  if (!strcmp(layer->key, "input") || find_layer(p, layer->key) >= 0)
    return hd__yaml_fail(p->ctx, layer, "expected a new layer name, found '%s' again; rename one", layer->key);
  return HD_OK;
}

static hd_status read_layer(parser *p, const hd_yaml_node *entry) {
  HD_TRY(hd__yaml_expect(p->ctx, entry, HD_YAML_MAPPING, "a layer (- NAME: {op: ...})"));
  if (entry->count != 1)
    return hd__yaml_fail(p->ctx, entry,
                         "expected one layer (- NAME: {op: ...}), found %d keys; put the settings in braces",
                         entry->count);
  const hd_yaml_node *layer = &entry->item[0];
  HD_TRY(hd__yaml_expect(p->ctx, layer, HD_YAML_MAPPING, "a layer's settings ({op: ...})"));
  HD_TRY(check_name(p, layer));
  hd_op op;
  hd_attrs attrs;
  int in[HD_MAX_IN] = {-1, -1, -1, -1}, value;
  HD_TRY(read_op(&op, p->ctx, layer));
  HD_TRY(read_attrs(&attrs, p->ctx, layer, op));
  HD_TRY(read_inputs(in, p, layer, op));
  hd_status status = hd__graph_add(&value, p->graph, p->ctx, op, layer->key, in, op == HD_OP_add ? 2 : 1, &attrs);
  if (status != HD_OK)
    return hd__fail_in(p->ctx, status, "%s:%d", layer->source, layer->line);
  p->name[p->count] = layer->key;
  p->value[p->count] = value;
  p->node[p->count++] = layer;
  return HD_OK;
}

/* A layer that nothing reads would have parameters without a gradient. */
static hd_status check_used(const parser *p) {
  for (int i = 0; i < p->count - 1; i++) {
    bool used = false;
    for (int n = 0; n < p->graph->node_count; n++)
      used |= p->graph->nodes[n].in[0] == p->value[i] || p->graph->nodes[n].in[1] == p->value[i];
    if (!used)
      return hd__yaml_fail(
          p->ctx, p->node[i],
          "expected every layer to be read by another, found '%s' unused; remove it or name it in 'from'", p->name[i]);
  }
  return HD_OK;
}

static hd_status read_input_shape(hd_shape *shape, hd_ctx *ctx, const hd_yaml_node *root) {
  const hd_yaml_node *node = hd__yaml_get(root, "input");
  char text[FOUND_TEXT_BYTES];
  if (!node)
    return hd__yaml_fail(ctx, root, "expected 'input: [channels, height, width]', found none; add it");
  if (node->kind != HD_YAML_SEQUENCE || node->count != 3)
    return hd__yaml_fail(
        ctx, node,
        "expected three numbers [channels, height, width] as 'input', found %s; write for example [1, 28, 28]",
        found_text(text, node));
  shape->rank = 3;
  for (int i = 0; i < 3; i++) {
    int64_t number;
    HD_TRY(hd__yaml_int(&number, ctx, &node->item[i], 1, i == 0 ? 4 : MAX_SIDE));
    shape->dim[i] = (int32_t)number;
  }
  return HD_OK;
}

static hd_status read_layers(parser *p, const hd_yaml_node *layers) {
  for (int i = 0; i < layers->count; i++)
    HD_TRY(read_layer(p, &layers->item[i]));
  HD_TRY(check_used(p));
  const hd_yaml_node *last = p->node[p->count - 1];
  if (p->graph->param_count == 0)
    return hd__yaml_fail(p->ctx, last,
                         "expected at least one layer with weights, found none; add a conv2d or linear layer");
  hd_status status = hd__graph_add_loss(p->graph, p->ctx, p->value[p->count - 1]);
  return status == HD_OK ? HD_OK : hd__fail_in(p->ctx, status, "%s:%d", last->source, last->line);
}

static hd_status read_model(hd_graph **out, char **name, hd_ctx *ctx, const hd_yaml_node *root) {
  static const char *const keys[] = {"model", "input", "layers", NULL};
  HD_TRY(hd__yaml_expect(ctx, root, HD_YAML_MAPPING, "a model"));
  HD_TRY(hd__yaml_only_keys(ctx, root, keys));
  const hd_yaml_node *title = hd__yaml_get(root, "model"), *layers = hd__yaml_get(root, "layers");
  const char *text;
  hd_shape shape;
  if (!title || !layers)
    return hd__yaml_fail(ctx, root, "expected 'model: NAME', 'input: [...]' and 'layers:', found no '%s'; add it",
                         title ? "layers" : "model");
  HD_TRY(hd__yaml_text(&text, ctx, title));
  HD_TRY(hd__yaml_expect(ctx, layers, HD_YAML_SEQUENCE, "'layers'"));
  if (layers->count < 1 || layers->count > MAX_LAYERS)
    return hd__yaml_fail(ctx, layers, "expected 1 to %d layers, found %d; write one a line, - NAME: {op: ...}",
                         MAX_LAYERS, layers->count);
  HD_TRY(read_input_shape(&shape, ctx, root));
  if (name && !(*name = hd__strdup(text)))
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while reading a model");
  hd_status status = hd__graph_create(out, ctx, &shape);
  if (status != HD_OK)
    return hd__fail_in(ctx, status, "%s:%d", root->source, hd__yaml_get(root, "input")->line);
  size_t count = (size_t)layers->count;
  parser p = {.ctx = ctx, .graph = *out};
  p.name = hd__calloc(count, sizeof *p.name);
  p.value = hd__calloc(count, sizeof *p.value);
  p.node = hd__calloc(count, sizeof *p.node);
  status = p.name && p.value && p.node ? read_layers(&p, layers)
                                       : hd__fail(ctx, HD_E_NOMEM, "out of memory while reading a model");
  hd__free(p.name);
  hd__free(p.value);
  hd__free(p.node);
  return status;
}

hd_status hd__model_parse(hd_graph **out, char **name, hd_ctx *ctx, const char *text, size_t length,
                          const char *source) {
  hd_yaml *yaml;
  *out = NULL;
  if (name)
    *name = NULL;
  HD_TRY(hd__yaml_parse(&yaml, ctx, text, length, source));
  hd_status status = read_model(out, name, ctx, hd__yaml_root(yaml));
  hd__yaml_destroy(yaml);
  if (status == HD_OK)
    return HD_OK;
  hd__graph_destroy(*out);
  *out = NULL;
  if (name) {
    hd__free(*name);
    *name = NULL;
  }
  return status;
}
