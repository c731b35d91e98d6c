/* Reads ONNX files: unpacks the messages within bounds, writes the description of the network that they hold, and
 * checks it against its weights; see onnx_reader.h.
 *
 * A file is untrusted. Unpacking may take a few times the file's length of memory, since messages have a fixed size;
 * an allocator counts it. */
#include "onnx/onnx.h"

#ifdef HD_HAVE_ONNX

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/model.h"
#include "onnx/onnx_reader.h"
#include "platform/thread_start.h"

enum { TYPE_FLOAT = 1, TYPE_UINT8 = 2, TYPE_INT32 = 6, TYPE_INT64 = 7, TYPE_HALF = 10, TYPE_DOUBLE = 11 };
enum { MOST_SIDE = 1 << 20, MOST_RANK = 4, BYTES_PER_BYTE = 16, BYTES_AT_LEAST = 1 << 22 };

HD_RELEASER(release_graph, hd_graph, hd__graph_destroy)

/* ---- The messages ---- */

static void *take(void *left, size_t bytes) {
  int64_t *room = left;
  *room -= (int64_t)bytes + 16;
  return *room < 0 ? NULL : hd__malloc(bytes ? bytes : 1);
}

static void give_back(void *left, void *memory) { hd__free(memory); }

static bool names_are_there(const HdOnnx__Graph *g) {
  for (size_t i = 0; i < g->n_node; i++)
    if (!g->node[i]->op_type)
      return false;
  return true;
}

/* The only input of the graph that no initializer has: older files list these too. */
static const HdOnnx__Value *find_input(const hd_onnx_reader *r, int *count) {
  const HdOnnx__Value *input = NULL;
  *count = 0;
  for (size_t i = 0; i < r->graph->n_input; i++)
    if (r->graph->input[i]->name && !hd__onnx_tensor(r, r->graph->input[i]->name)) {
      input = r->graph->input[i];
      ++*count;
    }
  return input;
}

/* ---- The description ---- */

/* The network has its file's name. */
static void write_name(hd_onnx_reader *r) {
  const char *slash = strrchr(r->path, '/'), *name = slash ? slash + 1 : r->path;
  size_t length = strlen(name);
  length -= hd__onnx_is_path(name) ? strlen(".onnx") : 0;
  fprintf(r->text, "model: \"");
  for (size_t i = 0; i < length && i < 64; i++) {
    const bool good = (isalnum((unsigned char)name[i]) && (unsigned char)name[i] < 0x80) || name[i] == '-';
    fputc(good ? name[i] : '_', r->text);
  }
  fprintf(r->text, "\"\n");
}

/* Whether whole numbers are looked up in a table. */
static bool reads_tokens(const hd_onnx_reader *r, const char *name, int type) {
  for (size_t i = 0; i < r->graph->n_node; i++)
    if ((type == TYPE_INT32 || type == TYPE_INT64) && hd__onnx_is(r->graph->node[i], "Gather") &&
        !strcmp(hd__onnx_resolve(r, hd__onnx_input(r->graph->node[i], 1)), name))
      return true;
  return false;
}

/* The first node that reads the input, and what it does with it. */
static const HdOnnx__Node *first_reader(const hd_onnx_reader *r, const char *name) {
  for (size_t i = 0; i < r->graph->n_node; i++)
    for (size_t k = 0; k < r->graph->node[i]->n_input; k++)
      if (!strcmp(hd__onnx_resolve(r, r->graph->node[i]->input[k]), name) && !hd__onnx_is(r->graph->node[i], "Shape") &&
          !hd__onnx_is(r->graph->node[i], "Identity") && !hd__onnx_is(r->graph->node[i], "Cast"))
        return r->graph->node[i];
  return NULL;
}

/* Samples of batch x length x length are images without a channel if they are made flat or get one, else signals. */
static bool is_signal(const hd_onnx_reader *r, const char *name) {
  static const char *const flatten[] = {"Flatten", "Reshape", "Unsqueeze"};
  const HdOnnx__Node *node = first_reader(r, name);
  for (int i = 0; i < 3 && node; i++)
    if (hd__onnx_is(node, flatten[i]))
      return false;
  return node != NULL;
}

/* Images with their channels last, as TensorFlow's: they are transposed first, perhaps behind a normalisation; or they
 * have one channel, and lie as an image. */
static bool has_channels_last(const hd_onnx_reader *r, const char *name, const long long side[3]) {
  static const char *const maps[] = {"Mul", "Add", "Sub", "Div"};
  const HdOnnx__Node *node = first_reader(r, name);
  for (int steps = 0; steps < 8 && node && node->n_output > 0; steps++) {
    bool is_map = false;
    const HdOnnx__Attribute *perm = hd__onnx_attribute(node, "perm");
    if (hd__onnx_is(node, "Transpose"))
      return perm && perm->n_ints == 4 && perm->ints[1] == 3 && perm->ints[2] == 1 && perm->ints[3] == 2;
    for (int i = 0; i < 4; i++)
      is_map = is_map || hd__onnx_is(node, maps[i]);
    if (!is_map)
      break;
    node = first_reader(r, node->output[0]);
  }
  return node && hd__onnx_is(node, "Reshape") && side[2] == 1 && side[0] > 1;
}

/* What the tensor of the input is of the network's. */
static void view_input(hd_onnx_reader *r, size_t rank, long long side[3], const char *name) {
  hd_onnx_view *v = &r->view_in;
  r->channel_axis = 1;
  if (rank == 2) {
    hd__onnx_whole(v, "flat_input", 2, true, side[2], 1, 1);
  } else if (rank == 4 && has_channels_last(r, name, side)) {
    const int last[] = {0, 3, 1, 2};
    const long long height = side[0], width = side[1];
    side[0] = side[2];
    side[1] = height;
    side[2] = width;
    hd__onnx_whole(v, "input", 4, false, side[0], height, width);
    hd__onnx_rename_axes(v, last, 4);
    r->channel_axis = 3;
  } else if (rank == 4) {
    hd__onnx_whole(v, "input", 4, false, side[0], side[1], side[2]);
  } else if (is_signal(r, name)) {
    side[0] = side[1];
    side[1] = 1;
    hd__onnx_whole(v, "input", 3, false, side[0], 1, side[2]);
  } else {
    const int rows[] = {0, 3, 1, 2};
    hd__onnx_whole(v, "input", 4, false, 1, side[1], side[2]);
    hd__onnx_rename_axes(v, rows, 4);
    v->rank = 3;
  }
}

/* Whether numbers of another type become floats before anything else is done with them. */
static bool becomes_floats(const hd_onnx_reader *r, const char *name, int type) {
  bool becomes = type == TYPE_DOUBLE || type == TYPE_INT32 || type == TYPE_INT64;
  for (size_t i = 0; i < r->graph->n_node && becomes; i++) {
    const HdOnnx__Node *node = r->graph->node[i];
    const bool casts = hd__onnx_is(node, "Cast") && hd__onnx_int(node, "to", 0) == TYPE_FLOAT;
    for (size_t k = 0; k < node->n_input && !casts && !hd__onnx_is_scaler(node); k++)
      becomes = becomes && strcmp(node->input[k], name) != 0;
  }
  for (size_t i = 0; i < r->graph->n_output && becomes; i++)
    becomes = !r->graph->output[i]->name || strcmp(r->graph->output[i]->name, name) != 0;
  return becomes;
}

/* Whether an operator takes, moves or repeats whole elements, which then are bytes as before. */
static bool moves_elements(const HdOnnx__Node *node) {
  static const char *const ops[] = {"Identity", "Transpose", "Reshape",      "Flatten",      "Squeeze", "Unsqueeze",
                                    "Slice",    "Split",     "Gather",       "Concat",       "Expand",  "Tile",
                                    "Pad",      "MaxPool",   "DepthToSpace", "SpaceToDepth", "Resize",  "Upsample"};
  const bool nearest = !hd__onnx_attribute(node, "mode") || hd__onnx_text(node, "mode", "nearest");
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (hd__onnx_is(node, ops[i]))
      return nearest || (strcmp(ops[i], "Resize") != 0 && strcmp(ops[i], "Upsample") != 0);
  return false;
}

enum { MOST_PASSES = 64 };

/* Bytes become floats before anything is computed with them, which would wrap and round. */
static hd_status check_bytes(hd_onnx_reader *r, const char *name) {
  const HdOnnx__Graph *g = r->graph;
  HD_OWNED bool *of_bytes = NULL; /* whether a node's outputs are bytes of the input */
  HD_TRY(HD_NEW(of_bytes, g->n_node + 1, r->ctx, "%s: out of memory while reading", r->path));
  bool more = true;
  for (int pass = 0; more && pass < MOST_PASSES; pass++) { /* files whose nodes are in order need two */
    more = false;
    for (size_t i = 0; i < g->n_node; i++) {
      bool reads = false;
      for (size_t k = 0; k < g->node[i]->n_input && !of_bytes[i]; k++) {
        const HdOnnx__Node *from = hd__onnx_node(r, g->node[i]->input[k]);
        reads = reads || !strcmp(g->node[i]->input[k], name) || (from && of_bytes[hd__onnx_index(r, from)]);
      }
      if (!reads || hd__onnx_is(g->node[i], "Cast") || hd__onnx_is(g->node[i], "Shape") ||
          hd__onnx_is_scaler(g->node[i]))
        continue;
      if (!moves_elements(g->node[i]))
        return hd__onnx_refuse(r, g->node[i],
                               "expected the input's bytes as floats, found them as bytes; cast them to float32 before "
                               "this node");
      more = of_bytes[i] = true;
    }
  }
  return !more ? HD_OK
               : hd__fail(r->ctx, HD_E_UNSUPPORTED,
                          "%s: expected nodes behind those whose results they read, found many in front; export the "
                          "file again",
                          r->path);
}

/* Its type, and the map of the input itself. */
static hd_status check_input(hd_onnx_reader *r, const HdOnnx__Value *input, long long channels) {
  hd_onnx_map *map = &r->map[r->graph->n_node];
  const int type = input->type->tensor_type->elem_type;
  if (type != TYPE_FLOAT && type != TYPE_UINT8 && type != TYPE_HALF && !reads_tokens(r, input->name, type) &&
      !becomes_floats(r, input->name, type))
    return hd__fail(r->ctx, HD_E_UNSUPPORTED,
                    "%s: expected the input '%.80s' as float32 or uint8, found type %d; export it in float32", r->path,
                    input->name, type);
  r->out->input.bytes = type == TYPE_UINT8;
  if (type == TYPE_UINT8)
    HD_TRY(check_bytes(r, input->name));
  r->out->input.channels = channels > HD_ONNX_CHANNELS ? 0 : (int32_t)channels;
  map->state = HD_ONNX_MAP;
  for (int c = 0; c < r->out->input.channels; c++)
    map->scale[c] = 1;
  return HD_OK;
}

/* Samples of N x C x H x W, N x H x W or N x D, whatever N is. */
static hd_status write_input(hd_onnx_reader *r, const HdOnnx__Value *input) {
  const HdOnnx__TensorType *type = input->type ? input->type->tensor_type : NULL;
  const size_t rank = type && type->shape ? type->shape->n_dim : 0;
  long long side[3] = {1, 1, 1};
  bool good = rank >= 2 && rank <= MOST_RANK;
  for (size_t i = 1; i < rank && good; i++) {
    side[3 - rank + i] = type->shape->dim[i]->dim_value;
    good = side[3 - rank + i] > 0 && side[3 - rank + i] <= MOST_SIDE;
  }
  good = good && side[0] * side[1] <= HD_ONNX_MOST_SIDE / side[2];
  if (!good)
    return hd__fail(r->ctx, HD_E_UNSUPPORTED,
                    "%s: expected the input '%.80s' as batch x channels x height x width, or batch "
                    "x elements, with fixed sizes except for the batch, found something else; export it with a sample "
                    "of fixed size",
                    r->path, input->name);
  view_input(r, rank, side, input->name);
  r->batch = type->shape->dim[0]->dim_value;
  r->batch = r->batch > INT32_MAX ? 0 : r->batch;
  HD_TRY(check_input(r, input, side[0]));
  r->row = side[0] == 1 && side[1] == 1 && side[2] <= HD_ONNX_ROW ? side[2] : 0;
  r->input = input->name;
  r->input_rank = rank;
  if (reads_tokens(r, input->name, input->type->tensor_type->elem_type)) {
    fprintf(r->text, "input: [%lld]\nlayers:\n", side[2]);
    snprintf(r->view_in.layer, sizeof r->view_in.layer, "input");
    return HD_OK;
  }
  fprintf(r->text, "input: [%lld, %lld, %lld]\nlayers:\n", side[0], side[1], side[2]);
  if (rank == 2)
    fprintf(r->text, "  - flat_input: {op: flatten}\n");
  return HD_OK;
}

static const char *entry_of(const HdOnnx__Model *model, const char *key) {
  for (size_t i = 0; i < model->n_metadata_props; i++)
    if (model->metadata_props[i]->key && !strcmp(model->metadata_props[i]->key, key))
      return model->metadata_props[i]->value;
  return NULL;
}

/* The output of the last layer. A softmax that another program put after the scores is part of heddle's loss if it is
 * over classes. */
static const char *find_scores(const hd_onnx_reader *r, const char *scores, bool from_heddle) {
  const HdOnnx__Node *node = hd__onnx_producer(r, scores, NULL);
  const bool is = node && (hd__onnx_is(node, "Softmax") || hd__onnx_is(node, "LogSoftmax"));
  return !from_heddle && is ? hd__onnx_input(node, 0) : scores;
}

/* The last nodes of a file of heddle's may scale the scores to the targets, per output: these are no layer. */
static hd_status refuse_unscaling(hd_onnx_reader *r) {
  const char *name = r->graph->output[0]->name;
  const HdOnnx__Node *add = name ? hd__onnx_producer(r, name, "Add") : NULL; /* behind it a cast to float */
  if (!add || strcmp(hd__onnx_input(add, 1), "scores/mean") != 0)
    return HD_OK;
  return hd__onnx_refuse(r, add,
                         "expected scores as the loss reads them, found scores rescaled to the targets "
                         "(--target-scale), which no layer does; start from the run's model.safetensors with --init, "
                         "or export a run of --target-scale none");
}

/* Whether a softmax is over the channels of the scores before it, all of them and nothing else: these are the classes.
 */
static bool is_over_classes(const hd_onnx_reader *r, const hd_onnx_view *v, const HdOnnx__Node *softmax) {
  const bool old = r->opset < HD_ONNX_SOFTMAX_OF_ONE_AXIS; /* then over all later axes, too */
  const int axis = hd__onnx_axis(v, hd__onnx_int(softmax, "axis", old ? 1 : -1));
  bool good = v->batch == 0 && axis > 0;
  for (int i = 0; i < v->atoms; i++)
    good = good && (v->atom[i].axis == axis) == (v->atom[i].step >= v->h * v->w);
  for (int later = axis + 1; later < v->rank && old; later++)
    good = good && hd__onnx_side(v, later) == 1;
  return good;
}

/* Whether the file means scores whose last axis is the channels, so that these need no other order: places x classes,
 * or images with their channels last. */
static bool has_classes_last(const hd_onnx_reader *r, const hd_onnx_view *v, const HdOnnx__Node *node) {
  const hd_onnx_atom *last = v->atoms > 0 ? &v->atom[v->atoms - 1] : NULL;
  const bool whole = hd__onnx_sample(v) == v->c * v->h * v->w; /* it repeats none */
  const bool are = !v->flat && last && last->step == v->h * v->w && last->size == v->c;
  return are && whole && (v->rank < 4 || r->channel_axis == 3 || hd__onnx_is(node, "Transpose"));
}

static int64_t opset_of(const HdOnnx__Model *model) {
  for (size_t i = 0; i < model->n_opset_import; i++)
    if (!model->opset_import[i]->domain || !*model->opset_import[i]->domain ||
        !strcmp(model->opset_import[i]->domain, "ai.onnx"))
      return model->opset_import[i]->version;
  return 1;
}

/* ---- Several heads ---- */

static const char *head_loss(const HdOnnx__Model *model, size_t head) {
  char key[32];
  snprintf(key, sizeof key, HD_ONNX_HEAD_LOSS, (int)head);
  return entry_of(model, key);
}

/* Each output is a head, whose loss the file's metadata have. */
static hd_status write_heads(hd_onnx_reader *r, const HdOnnx__Model *model) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz_0123456789{}:,.+- ";
  hd_onnx_view head[HD_LOSS_HEADS];
  const size_t heads = r->graph->n_output;
  for (size_t k = 0; k < heads; k++) {
    const char *name = r->graph->output[k]->name, *loss = head_loss(model, k);
    if (heads > HD_LOSS_HEADS || !name || !loss || strspn(loss, plain) != strlen(loss))
      return hd__fail(
          r->ctx, HD_E_UNSUPPORTED,
          "%s: expected up to %d outputs with a loss each in the file's metadata, found none of output %zu, "
          "'%.80s'; use the run's checkpoint",
          r->path, HD_LOSS_HEADS, k + 1, name ? name : "");
    HD_TRY(hd__onnx_view(&head[k], r, name));
    if (hd__onnx_producer(r, name, NULL))
      HD_TRY(hd__onnx_settle(&head[k], r, hd__onnx_producer(r, name, NULL)));
  }
  fprintf(r->text, "loss:\n");
  for (size_t k = 0; k < heads; k++)
    fprintf(r->text, "  - \"%s\": %s\n", head[k].layer, head_loss(model, k));
  return HD_OK;
}

/* The graph's input and the value that its outputs are of; of several heads its outputs are values of their own. */
static hd_status find_ends(const HdOnnx__Value **input, const char **output, hd_onnx_reader *r, bool heads) {
  int inputs;
  *input = find_input(r, &inputs);
  *output = hd__onnx_output(r);
  const size_t outputs = r->graph->n_output;
  if (inputs == 1 && heads && outputs > 0)
    return HD_OK;
  const char *name = outputs > 1 && r->graph->output[0]->name ? r->graph->output[0]->name : "";
  const HdOnnx__Node *first = hd__onnx_producer(r, name, NULL);
  if (inputs == 1 && !*output && first)
    return hd__onnx_refuse(r, first,
                           "expected one output, or labels and probabilities of the same scores, found %zu outputs of "
                           "different values; export it with one",
                           outputs);
  if (inputs != 1 || !*output)
    return hd__fail(r->ctx, HD_E_UNSUPPORTED,
                    "%s: expected a network of one input and one output, found %d and %zu; export it with one of each",
                    r->path, inputs, outputs);
  return HD_OK;
}

/* The layers up to the scores, in the order that the file means. */
static hd_status make_scores(hd_onnx_reader *r, const char *output, bool from_heddle) {
  const char *scores = find_scores(r, output, from_heddle);
  hd_onnx_view last;
  HD_TRY(hd__onnx_view(&last, r, scores));
  const HdOnnx__Node *softmax = hd__onnx_producer(r, output, NULL);
  if (strcmp(hd__onnx_resolve(r, scores), hd__onnx_resolve(r, output)) != 0 && !is_over_classes(r, &last, softmax)) {
    scores = output;
    HD_TRY(hd__onnx_view(&last, r, scores));
  }
  const HdOnnx__Node *node = hd__onnx_producer(r, scores, NULL);
  if (node && last.rank <= 2)
    return hd__onnx_settle(&last, r, node);
  return node && !hd__onnx_in_order(&last) && !has_classes_last(r, &last, node) ? hd__onnx_settle(&last, r, node)
                                                                                : HD_OK;
}

static hd_status write_description(hd_onnx_reader *r, const HdOnnx__Model *model) {
  const char *loss = entry_of(model, "heddle.loss"), *elements = entry_of(model, HD_ONNX_ELEMENTS), *output;
  const HdOnnx__Value *input;
  const bool heads = loss && !strcmp(loss, hd__op_info(HD_OP_weighted_sum)->name);
  HD_TRY(find_ends(&input, &output, r, heads));
  write_name(r);
  HD_TRY(write_input(r, input));
  hd_onnx_input *in = &r->out->input;
  in->may_be_bytes = loss && !elements && !in->bytes;
  in->bytes = in->bytes || (loss && elements && !strcmp(elements, HD_ONNX_BYTES));
  if (heads)
    return write_heads(r, model);
  if (loss)
    HD_TRY(refuse_unscaling(r));
  HD_TRY(hd__onnx_skip_column(&output, r));
  const char *binary = loss ? NULL : hd__onnx_binary_score(r, output);
  HD_TRY(make_scores(r, binary ? binary : output, loss != NULL));
  if (binary)
    loss = "bce_with_logits";
  HD_TRY(hd__onnx_read_classes(r, entry_of(model, "class_names")));
  if (loss && strspn(loss, "abcdefghijklmnopqrstuvwxyz_0123456789") == strlen(loss))
    fprintf(r->text, "loss: \"%s\"\n", loss);
  return HD_OK;
}

/* ---- The check ---- */

static const hd_value *find_value(const hd_graph *graph, const char *name, bool param) {
  for (int v = 0; v < graph->value_count; v++)
    if (!strcmp(graph->values[v].name, name) && (graph->values[v].param >= 0) == param)
      return &graph->values[v];
  return NULL;
}

/* Weights have the shapes that the description gives them, and flat layers their elements. */
static hd_status check(const hd_onnx_reader *r, const hd_graph *graph) {
  char wanted[HD_SHAPE_TEXT_BYTES], found[HD_SHAPE_TEXT_BYTES];
  for (int i = 0; i < r->out->weights.count; i++) {
    const hd_st_tensor *t = &r->out->weights.tensor[i];
    const hd_value *value = find_value(graph, t->name, true);
    if (!value || !hd__shape_equal(&value->shape, &t->shape))
      return hd__fail(r->ctx, HD_E_SHAPE,
                      "%s: expected %s of shape %s, found %s; heddle has no other form of this layer", r->path, t->name,
                      value ? hd__shape_text(wanted, sizeof wanted, &value->shape) : "none",
                      hd__shape_text(found, sizeof found, &t->shape));
  }
  for (int i = 0; i < r->layers && i < HD_ONNX_LAYERS; i++) {
    const hd_onnx_view *v = &r->shape[i];
    const hd_value *value = find_value(graph, v->layer, false);
    hd_shape shape = {v->flat ? 1 : 3, {(int32_t)v->c, (int32_t)v->h, (int32_t)v->w}};
    if (v->flat)
      shape.dim[1] = shape.dim[2] = 0;
    if (value && value->shape.rank == shape.rank && value->shape.dim[0] == shape.dim[0] &&
        (v->flat || (value->shape.dim[1] == shape.dim[1] && value->shape.dim[2] == shape.dim[2])))
      continue;
    return hd__fail(r->ctx, HD_E_SHAPE, "%s: layer '%s': expected %s as in the file, found %s; export it again",
                    r->path, v->layer, hd__shape_text(wanted, sizeof wanted, &shape),
                    value ? hd__shape_text(found, sizeof found, &value->shape) : "none");
  }
  return HD_OK;
}

static hd_status check_model(hd_onnx_reader *r) {
  char source[256];
  HD_RELEASED(release_graph) hd_graph *graph = NULL;
  snprintf(source, sizeof source, "%.200s, as a model file", r->path);
  HD_TRY(hd__model_parse(&graph, NULL, r->ctx, r->out->text, strlen(r->out->text), source));
  return check(r, graph);
}

/* ---- The file ---- */

static hd_status read_graph(hd_onnx_reader *r, const HdOnnx__Model *model) {
  static const char NO_MEMORY[] = "%s: out of memory while reading";
  char *text = NULL, *rules = NULL;
  size_t length = 0, rules_length = 0;
  HD_TRY(hd__onnx_list_values(r));
  HD_TRY(hd__onnx_fold(r));
  HD_TRY(HD_NEW(r->owner, HD_ONNX_LAYERS, r->ctx, NO_MEMORY, r->path));
  HD_TRY(HD_NEW(r->move, HD_ONNX_LAYERS, r->ctx, NO_MEMORY, r->path));
  HD_TRY(HD_NEW(r->shape, HD_ONNX_LAYERS, r->ctx, NO_MEMORY, r->path));
  HD_TRY(HD_NEW(r->taken_name, HD_ONNX_NAMES, r->ctx, NO_MEMORY, r->path));
  HD_TRY(HD_NEW(r->map, r->graph->n_node + 1, r->ctx, NO_MEMORY, r->path));
  HD_TRY(HD_NEW(r->out->weights.tensor, HD_ONNX_TENSORS, r->ctx, NO_MEMORY, r->path));
  HD_TRY(HD_NEW(r->out->memory, HD_ONNX_TENSORS, r->ctx, NO_MEMORY, r->path));
  HD_TRY(HD_ALLOCATED(r->rules = open_memstream(&rules, &rules_length), r->ctx, NO_MEMORY, r->path));
  hd_status status = HD_ALLOCATED(r->text = open_memstream(&text, &length), r->ctx, NO_MEMORY, r->path);
  HD_THEN(status, write_description(r, model));
  if (fclose(r->rules) != 0 && status == HD_OK)
    status = hd__fail(r->ctx, HD_E_NOMEM, NO_MEMORY, r->path);
  if (status == HD_OK && rules_length > 0)
    fprintf(r->text, "parameters: [%s]\n", rules);
  free(rules);
  if (r->text && fclose(r->text) != 0)
    status = hd__fail(r->ctx, HD_E_NOMEM, NO_MEMORY, r->path);
  HD_THEN(status, HD_ALLOCATED(r->out->text = hd__strdup(text), r->ctx, NO_MEMORY, r->path));
  free(text);
  return status == HD_OK ? check_model(r) : status;
}

static hd_status read_model(hd_onnx_model *out, hd_ctx *ctx, const char *path, const HdOnnx__Model *model,
                            size_t length) {
  hd_onnx_reader r = {.ctx = ctx,
                      .path = path,
                      .graph = model->graph,
                      .out = out,
                      .opset = opset_of(model),
                      .room = (int64_t)length * BYTES_PER_BYTE + BYTES_AT_LEAST,
                      .beside = strchr(path, '.') != NULL,
                      .make = hd__onnx_make,
                      .view = hd__onnx_view,
                      .merged_view = hd__onnx_merged_view,
                      .fold_late = hd__onnx_fold_late};
  if (!r.graph || !names_are_there(r.graph))
    return hd__fail(ctx, HD_E_FORMAT, "%s: expected a graph with operators, found none; export it again", path);
  const hd_status status = read_graph(&r, model);
  for (int i = 0; i < r.values; i++)
    hd__free(r.value[i].view);
  hd__free(r.value);
  hd__free(r.owner);
  hd__free(r.move);
  hd__free(r.shape);
  hd__onnx_free_scores(&r);
  hd__onnx_free_constants(&r);
  for (size_t i = 0; r.map && i <= r.graph->n_node; i++)
    hd__free(r.map[i].mean);
  hd__free(r.map);
  hd__free(r.taken_name);
  hd__free(r.place);
  return status;
}

static hd_status parse(hd_onnx_model *out, hd_ctx *ctx, const char *path, const unsigned char *bytes, size_t length) {
  int64_t room = (int64_t)length * BYTES_PER_BYTE + BYTES_AT_LEAST;
  ProtobufCAllocator allocator = {take, give_back, &room};
  HdOnnx__Model *model = length > 0 ? hd_onnx__model__unpack(&allocator, length, bytes) : NULL;
  if (!model)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected an ONNX file, found other bytes, or memory ran out; export it again", path);
  const hd_status status = read_model(out, ctx, path, model, length);
  hd_onnx__model__free_unpacked(model, &allocator);
  if (status != HD_OK)
    hd__onnx_fini(out);
  return status;
}

typedef struct parse_job {
  hd_onnx_model *out;
  hd_ctx *ctx;
  const char *path;
  const unsigned char *bytes;
  size_t length;
  hd_status status;
} parse_job;

static void *run_parse(void *arg) {
  parse_job *job = arg;
  job->status = parse(job->out, job->ctx, job->path, job->bytes, job->length);
  return NULL;
}

/* A thread of its own has the stack for HD_ONNX_LAYERS values, each of which follows from the one before. */
hd_status hd__onnx_parse(hd_onnx_model *out, hd_ctx *ctx, const char *path, const unsigned char *bytes, size_t length) {
  parse_job job = {.out = out, .ctx = ctx, .path = path, .bytes = bytes, .length = length};
  hd_thread thread;
  *out = (hd_onnx_model){0};
  const int error = hd__thread_start(&thread, run_parse, &job);
  if (error)
    return hd__fail(ctx, HD_E_SYSTEM, "cannot start the thread that reads %s: %s; raise `ulimit -u`", path,
                    strerror(error));
  hd__thread_join(&thread);
  return job.status;
}

#endif
