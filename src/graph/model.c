/* Reads model files. Every error has the form FILE:LINE: expected, found, remedy. */
#include "graph/model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/model_layer.h"
#include "graph/model_words.h"
#include "op/op.h"
#include "graph/param_rules.h"

enum { MAX_LAYERS = 1000 };

/* A layer of the file: its name, output value and place. */
typedef struct layer_entry {
  char *name; /* owned */
  int value;
  const hd_yaml_node *node;
} layer_entry;

typedef struct parser {
  hd_ctx *ctx;
  hd_graph *graph;
  layer_entry *layer;
  int count;
} parser;

/* A scope of names. In a round of a repeat, layers are named PREFIX.NAME, and `above` is the round's input; names that
 * the scope lacks are looked up in the enclosing scope. */
typedef struct scope {
  const struct scope *outside;
  const char *prefix; /* with its dot; "" outside of repeats */
  int above;
} scope;

static int find_layer(const parser *p, const char *prefix, const char *name) {
  size_t length = strlen(prefix);
  for (int i = 0; i < p->count; i++)
    if (!strncmp(p->layer[i].name, prefix, length) && !strcmp(p->layer[i].name + length, name))
      return i;
  return -1;
}

/* The default input of a layer: the output of the layer above. */
static int value_above(const parser *p) { return p->count ? p->layer[p->count - 1].value : p->graph->input; }

static int find_named(const parser *p, const scope *where, const char *name) {
  int layer = -1;
  for (const scope *at = where; at && layer < 0; at = at->outside)
    layer = find_layer(p, at->prefix, name);
  return layer;
}

static hd_status input_of(int *value, const parser *p, const scope *where, const hd_yaml_node *node) {
  const char *name;
  HD_TRY(hd__yaml_text(&name, p->ctx, node));
  bool is_input = !strcmp(name, "input"), is_above = where->outside && !strcmp(name, "above");
  if (is_input || is_above) {
    *value = is_input ? p->graph->input : where->above;
    return HD_OK;
  }
  int layer = find_named(p, where, name);
  if (layer < 0)
    return hd__yaml_fail(p->ctx, node,
                         "expected the name of a layer above, found '%s'; name 'input' or an earlier layer", name);
  *value = p->layer[layer].value;
  return HD_OK;
}

/* "two", "2 to 4": the number of inputs of a layer of this form. */
static const char *inputs_text(char *text, size_t bytes, const hd_layer_form *form) {
  if (form->fewest == 2 && form->most == 2)
    snprintf(text, bytes, "two");
  else
    snprintf(text, bytes, "%d to %d", form->fewest, form->most);
  return text;
}

/* The inputs of a layer: those that `from` names, else the layer above. */
static hd_status read_inputs(int in[HD_MAX_IN], int *count, const parser *p, const scope *where,
                             const hd_yaml_node *layer, const hd_layer_form *form) {
  const hd_yaml_node *from = hd__yaml_get(layer, "from");
  const char *op = hd__yaml_get(layer, "op")->text;
  char text[HD_LAYER_FOUND_BYTES], wanted[16];
  *count = 1;
  if (!from && form->fewest > 1)
    return hd__yaml_fail(p->ctx, layer, "expected 'from: [A, B]' for op '%s', found none; add it", op);
  if (!from) {
    in[0] = value_above(p);
    return HD_OK;
  }
  if (form->most == 1)
    return input_of(&in[0], p, where, from);
  if (from->kind != HD_YAML_SEQUENCE || from->count < form->fewest || from->count > form->most)
    return hd__yaml_fail(p->ctx, from,
                         "expected %s names [A, B] as 'from' for op '%s', found %s; name that many layers",
                         inputs_text(wanted, sizeof wanted, form), op, hd__layer_found(text, sizeof text, from));
  *count = from->count;
  for (int i = 0; i < *count; i++)
    HD_TRY(input_of(&in[i], p, where, &from->item[i]));
  return HD_OK;
}

/* The operation of a layer as the file has it. */
static hd_op written_op(const hd_node *node) { return node->attrs.pointwise ? HD_OP_linear : node->op; }

/* Whether a layer may use the parameters of another one: a linear layer those of an embedding too. */
static bool may_share(hd_op op, const hd_node *owner) {
  return written_op(owner) == op || (owner->op == HD_OP_embedding && op == HD_OP_linear);
}

/* Appends the weight and the bias of the layer named by `share` to a layer's inputs. */
static hd_status read_share(int in[HD_MAX_IN], int *count, hd_attrs *attrs, const parser *p, const scope *where,
                            const hd_yaml_node *layer) {
  const hd_yaml_node *share = hd__yaml_get(layer, "share"), *op = hd__yaml_get(layer, "op");
  const char *name;
  hd_layer_form form;
  if (!share)
    return HD_OK;
  HD_TRY(hd__layer_form(&form, p->ctx, layer));
  HD_TRY(hd__yaml_text(&name, p->ctx, share));
  int found = find_named(p, where, name);
  if (found < 0)
    return hd__yaml_fail(p->ctx, share,
                         "expected the name of a layer above as 'share', found '%s'; name an earlier layer", name);
  const hd_node *owner = &p->graph->nodes[p->graph->values[p->layer[found].value].producer];
  if (!may_share(form.op, owner))
    return hd__yaml_fail(p->ctx, share,
                         "expected a %s layer as 'share', found '%s', which is %s; name a layer of the same kind",
                         op->text, name, hd__op_info(written_op(owner))->name);
  if (hd__yaml_get(layer, "bias") && attrs->bias != owner->attrs.bias)
    return hd__yaml_fail(p->ctx, share,
                         "expected 'bias: %s' as in '%s', whose parameters are shared, found %s; leave it out",
                         owner->attrs.bias ? "true" : "false", name, attrs->bias ? "true" : "false");
  if (hd__yaml_get(layer, "init"))
    return hd__yaml_fail(p->ctx, hd__yaml_get(layer, "init"),
                         "expected 'init' in '%s', whose weight is shared, found it here; move it there", name);
  attrs->bias = owner->attrs.bias;
  for (int slot = 1; slot <= 1 + owner->attrs.bias; slot++)
    in[(*count)++] = owner->in[slot];
  return HD_OK;
}

/* The full name of a layer; `node` is its place in the file. */
static hd_status check_name(const parser *p, const scope *where, const char *name, const hd_yaml_node *node) {
  size_t length = strlen(name);
  if (length == 0 || length > 64 ||
      strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != length)
    return hd__yaml_fail(p->ctx, node,
                         "expected a layer name of 1 to 64 letters, digits, '_', '-' and '.', found '%s'; rename it",
                         name);
  if (!strcmp(name, "input") || find_layer(p, "", name) >= 0 || (where->outside && !strcmp(node->key, "above")))
    return hd__yaml_fail(p->ctx, node, "expected each layer name once, found '%s' again; rename one", name);
  if (p->count == MAX_LAYERS)
    return hd__yaml_fail(p->ctx, node, "expected at most %d layers, found one more, '%s'; use fewer layers", MAX_LAYERS,
                         name);
  return HD_OK;
}

/* `stage: N`: this layer and those after it belong to stage N, 0 being the first layer's. */
static hd_status read_stage(const parser *p, const hd_yaml_node *layer) {
  const hd_yaml_node *node = hd__yaml_get(layer, "stage");
  hd_stages *stages = &p->graph->stages;
  int64_t stage;
  if (!node)
    return HD_OK;
  HD_TRY(hd__yaml_int(&stage, p->ctx, node, 0, HD_MAX_STAGES - 1));
  const int now = stages->count > 0 ? stages->count - 1 : 0, next = p->count > 0 ? now + 1 : now;
  if (stage < now || stage > next)
    return hd__yaml_fail(p->ctx, node,
                         "expected stage %d%s here, found %lld; number stages from 0 in the order of the layers", now,
                         next > now ? " or the next" : "", (long long)stage);
  stages->count = (int)stage + 1;
  if (stage > now)
    stages->first[stage] = p->graph->written_count;
  return HD_OK;
}

/* conv1d and the like read signals. */
static hd_status check_line(const parser *p, const hd_yaml_node *layer, const hd_layer_form *form, int value) {
  const hd_shape *x = &p->graph->values[value].shape;
  char text[HD_SHAPE_TEXT_BYTES];
  if (!form->line || (x->rank == 3 && x->dim[1] == 1))
    return HD_OK;
  return hd__yaml_fail(p->ctx, layer, "layer '%s': %s expects a signal (channels x 1 x length), found %s; use %s",
                       layer->key, hd__yaml_get(layer, "op")->text, hd__shape_text(text, sizeof text, x),
                       hd__op_info(form->op)->name);
}

static hd_status add_layer(parser *p, const scope *where, const char *name, const hd_yaml_node *layer) {
  hd_layer_form form;
  hd_attrs attrs;
  int in[HD_MAX_IN], count, value;
  HD_TRY(check_name(p, where, name, layer));
  HD_TRY(hd__layer_form(&form, p->ctx, layer));
  HD_TRY(hd__layer_attrs(&attrs, p->ctx, layer, &form));
  HD_TRY(read_inputs(in, &count, p, where, layer, &form));
  HD_TRY(read_share(in, &count, &attrs, p, where, layer));
  HD_TRY(check_line(p, layer, &form, in[0]));
  HD_TRY(read_stage(p, layer));
  hd_status status = hd__graph_add(&value, p->graph, p->ctx, &(hd_layer_spec){form.op, name, in, count, &attrs});
  if (status != HD_OK)
    return hd__fail_in(p->ctx, status, "%s:%d", layer->source, layer->line);
  p->layer[p->count] = (layer_entry){.value = value, .node = layer};
  return HD_OK;
}

static hd_status read_layer(parser *p, const scope *where, const hd_yaml_node *layer) {
  char *name = hd__printf_alloc("%s%s", where->prefix, layer->key);
  if (!name)
    return hd__fail(p->ctx, HD_E_NOMEM, "out of memory while reading a model");
  hd_status status = add_layer(p, where, name, layer);
  if (status == HD_OK)
    p->layer[p->count++].name = name;
  else
    hd__free(name);
  return status;
}

static hd_status read_entry(parser *p, const scope *where, const hd_yaml_node *entry);

static hd_status read_rounds(parser *p, const scope *outside, const hd_yaml_node *block, const hd_yaml_node *layers,
                             int64_t rounds) {
  hd_status status = HD_OK;
  for (int64_t round = 1; round <= rounds && status == HD_OK; round++) {
    char *prefix = hd__printf_alloc("%s%s%lld.", outside->prefix, block->key, (long long)round);
    if (!prefix)
      return hd__fail(p->ctx, HD_E_NOMEM, "out of memory while reading a model");
    scope in = {.outside = outside, .prefix = prefix, .above = value_above(p)};
    for (int i = 0; i < layers->count && status == HD_OK; i++)
      status = read_entry(p, &in, &layers->item[i]);
    hd__free(prefix);
  }
  return status;
}

/* NAME: {repeat: N, layers: [...]}: the layers N times, named NAME1.LAYER, NAME2.LAYER and so on. */
static hd_status read_repeat(parser *p, const scope *outside, const hd_yaml_node *block) {
  static const char *const keys[] = {"repeat", "layers", NULL};
  const hd_yaml_node *repeat = hd__yaml_get(block, "repeat"), *layers = hd__yaml_get(block, "layers");
  int64_t rounds;
  HD_TRY(hd__yaml_only_keys(p->ctx, block, keys));
  if (!repeat || !layers)
    return hd__yaml_fail(p->ctx, block, "expected 'repeat: N' and 'layers:' in block '%s', found no '%s'; add it",
                         block->key, repeat ? "layers" : "repeat");
  HD_TRY(hd__yaml_int(&rounds, p->ctx, repeat, 1, MAX_LAYERS));
  HD_TRY(hd__yaml_expect(p->ctx, layers, HD_YAML_SEQUENCE, "'layers'"));
  if (layers->count == 0)
    return hd__yaml_fail(p->ctx, layers, "expected at least one layer in block '%s', found none; write one per line",
                         block->key);
  return read_rounds(p, outside, block, layers, rounds);
}

static hd_status read_entry(parser *p, const scope *where, const hd_yaml_node *entry) {
  HD_TRY(hd__yaml_expect(p->ctx, entry, HD_YAML_MAPPING, "a layer (- NAME: {op: ...})"));
  if (entry->count != 1)
    return hd__yaml_fail(p->ctx, entry,
                         "expected one layer (- NAME: {op: ...}), found %d keys; put the settings in braces",
                         entry->count);
  const hd_yaml_node *layer = &entry->item[0];
  HD_TRY(hd__yaml_expect(p->ctx, layer, HD_YAML_MAPPING, "a layer's settings ({op: ...})"));
  if (hd__yaml_get(layer, "repeat") || hd__yaml_get(layer, "layers"))
    return read_repeat(p, where, layer);
  return read_layer(p, where, layer);
}

/* Refuses layers without a reader: their parameters would have no gradient. */
static hd_status check_used(const parser *p, int count) {
  for (int i = 0; i < count; i++) {
    if (hd__graph_reads(p->graph, p->layer[i].value, NULL) == 0)
      return hd__yaml_fail(
          p->ctx, p->layer[i].node,
          "expected every layer to be read by another, found '%s' unused; remove it or name it in 'from'",
          p->layer[i].name);
  }
  return HD_OK;
}

/* Channels, height and width, channels and length of a signal, or how many numbers a row has. */
static hd_status read_input_shape(hd_shape *shape, hd_ctx *ctx, const hd_yaml_node *root) {
  const hd_yaml_node *node = hd__yaml_get(root, "input");
  char text[HD_LAYER_FOUND_BYTES];
  if (!node)
    return hd__yaml_fail(ctx, root, "expected 'input: [channels, height, width]', found none; add it");
  if (node->kind != HD_YAML_SEQUENCE || node->count > 3 || node->count < 1)
    return hd__yaml_fail(ctx, node,
                         "expected three numbers [channels, height, width] as 'input', found %s; write for example "
                         "[1, 28, 28], [1, 8000] for signals of one channel, [4] for rows of 4 numbers, or 'input: "
                         "data' to use the shape of the data",
                         hd__layer_found(text, sizeof text, node));
  shape->rank = node->count == 1 ? 1 : 3;
  shape->dim[1] = 1;
  for (int i = 0; i < node->count; i++) {
    int64_t number;
    HD_TRY(hd__yaml_int(&number, ctx, &node->item[i], 1,
                        i == 0 && node->count > 1 ? HD_MODEL_MAX_CHANNELS : HD_MODEL_MAX_SIDE));
    shape->dim[i == 1 && node->count == 2 ? 2 : i] = (int32_t)number;
  }
  return HD_OK;
}

static hd_status read_layers(parser *p, const hd_yaml_node *root, const hd_yaml_node *layers) {
  const scope file = {.prefix = ""};
  for (int i = 0; i < layers->count; i++)
    HD_TRY(read_entry(p, &file, &layers->item[i]));
  const hd_yaml_node *last = p->layer[p->count - 1].node, *loss = hd__yaml_get(root, "loss");
  const bool heads = loss && loss->kind == HD_YAML_SEQUENCE;
  if (!heads)
    HD_TRY(check_used(p, p->count - 1));
  if (p->graph->param_count == 0)
    return hd__yaml_fail(p->ctx, last,
                         "expected at least one layer with weights, found none; add a conv2d or linear layer");
  if (!heads)
    return hd__model_read_loss(p->graph, p->ctx, root, p->layer[p->count - 1].value, last);
  HD_TRY(hd__model_read_heads(p->graph, p->ctx, loss));
  return check_used(p, p->count);
}

/* `input`: the samples' shape instead of the file's, or NULL. */
static hd_status read_model(hd_graph **out, char **name, hd_ctx *ctx, const hd_yaml_node *root, const hd_shape *input) {
  static const char *const keys[] = {"model", "input", "layers", "loss", "parameters", NULL};
  HD_TRY(hd__yaml_expect(ctx, root, HD_YAML_MAPPING, "a model"));
  HD_TRY(hd__yaml_only_keys(ctx, root, keys));
  const hd_yaml_node *title = hd__yaml_get(root, "model"), *layers = hd__yaml_get(root, "layers");
  const hd_yaml_node *rules = hd__yaml_get(root, "parameters");
  const char *text;
  hd_shape shape;
  if (!title || !layers)
    return hd__yaml_fail(ctx, root, "expected 'model: NAME', 'input: [...]' and 'layers:', found no '%s'; add it",
                         title ? "layers" : "model");
  HD_TRY(hd__yaml_text(&text, ctx, title));
  HD_TRY(hd__yaml_expect(ctx, layers, HD_YAML_SEQUENCE, "'layers'"));
  if (layers->count < 1 || layers->count > MAX_LAYERS)
    return hd__yaml_fail(ctx, layers, "expected 1 to %d layers, found %d; write one per line, - NAME: {op: ...}",
                         MAX_LAYERS, layers->count);
  HD_TRY(read_input_shape(&shape, ctx, root));
  shape = !input ? shape : shape.rank == 1 ? hd__shape_sample(input) : *input;
  if (name && !(*name = hd__strdup(text)))
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while reading a model");
  hd_status status = hd__graph_create(out, ctx, &shape);
  if (status != HD_OK)
    return hd__fail_in(ctx, status, "%s:%d", root->source, hd__yaml_get(root, "input")->line);
  parser p = {.ctx = ctx, .graph = *out};
  HD_TRY(HD_NEW(p.layer, MAX_LAYERS, ctx, "out of memory while reading a model"));
  status = read_layers(&p, root, layers);
  if (status == HD_OK && rules)
    status = hd__param_rules_apply(*out, ctx, rules);
  for (int i = 0; i < p.count; i++)
    hd__free(p.layer[i].name);
  hd__free(p.layer);
  return status;
}

/* A model file. */
typedef struct model_text {
  const char *text;
  size_t length;
  const char *source; /* its name, for messages */
} model_text;

static hd_status parse(hd_graph **out, char **name, hd_ctx *ctx, const model_text *m, const hd_shape *input) {
  HD_YAML_OWNED *yaml = NULL;
  HD_TRY(hd__yaml_parse(&yaml, ctx, m->text, m->length, m->source));
  const hd_status status = read_model(out, name, ctx, hd__yaml_root(yaml), input);
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

/* The words that the file leaves to the data get the default data's values, except a given `input`. */
static hd_status default_facts(hd_model_facts *facts, hd_ctx *ctx, const model_text *m, const hd_shape *input) {
  hd_model_outline outline;
  HD_TRY(hd__model_outline(&outline, ctx, m->text, m->length, m->source));
  *facts = hd__model_default_facts(&outline, NULL);
  if (input)
    facts->input = hd__shape_sample(input);
  hd__free(outline.name);
  return HD_OK;
}

static hd_status parse_any(hd_graph **out, char **name, hd_ctx *ctx, const model_text *m, const hd_shape *input) {
  HD_OWNED char *resolved = NULL;
  hd_model_facts facts;
  char found[HD_SHAPE_TEXT_BYTES], message[HD_MESSAGE_BYTES];
  *out = NULL;
  if (name)
    *name = NULL;
  HD_TRY(default_facts(&facts, ctx, m, input));
  HD_TRY(hd__model_resolve(&resolved, ctx, m->text, m->length, m->source, &facts));
  if (!resolved)
    return parse(out, name, ctx, m, input);
  const hd_status status = parse(out, name, ctx, &(model_text){resolved, strlen(resolved), m->source}, input);
  if (status == HD_OK || status == HD_E_NOMEM)
    return status;
  snprintf(message, sizeof message, "%s", hd_ctx_message(ctx));
  return hd__fail(ctx, status, "%s (without data 'input: data' is %s and 'out: classes' %d)", message,
                  hd__shape_text(found, sizeof found, &facts.input), facts.classes);
}

hd_status hd__model_parse(hd_graph **out, char **name, hd_ctx *ctx, const char *text, size_t length,
                          const char *source) {
  return parse_any(out, name, ctx, &(model_text){text, length, source}, NULL);
}

hd_status hd__model_parse_for(hd_graph **out, hd_ctx *ctx, const char *text, size_t length, const char *source,
                              const hd_shape *input) {
  return parse_any(out, NULL, ctx, &(model_text){text, length, source}, input);
}
