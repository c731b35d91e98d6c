/* Model descriptions, and checking targets against a loss; see model_source.h. */
#include "train/settings/model_source.h"

#include <string.h>

#include "base/alloc.h"
#include "base/embed.h"
#include "base/nearest.h"
#include "base/text_buffer.h"
#include "data/split/skipped_samples.h"
#include "graph/model.h"
#include "heddle/model.h"
#include "onnx/onnx.h"
#include "op/op.h"
#include "platform/file.h"

enum { MOST_MODELS = 32 };

HD_RELEASER(release_graph, hd_graph, hd__graph_destroy)

/* A text without words is parsed now to fail early. */
static hd_status check_text(hd_network *out, hd_ctx *ctx) {
  HD_RELEASED(release_graph) hd_graph *graph = NULL;
  hd_model_outline outline;
  HD_TRY(hd__model_outline(&outline, ctx, out->text, out->length, out->source));
  out->name = outline.name;
  out->asks_input = outline.input;
  out->asks_classes = outline.classes;
  out->reads_rows = outline.rows;
  out->context = outline.context;
  out->has_loss = outline.has_loss;
  if (outline.classes && outline.loss == HD_OP_weighted_sum)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected numbers as 'out' in a model with several losses, found 'classes'; write how many "
                    "outputs each head has",
                    out->source);
  out->target =
      (hd_target){.loss = outline.loss, .ignored = outline.loss == HD_OP_cross_entropy ? outline.ignored : -1};
  if (outline.name && (outline.input || outline.classes))
    return HD_OK;
  HD_TRY(hd__model_parse(&graph, NULL, ctx, out->text, out->length, out->source));
  return hd__target_init(&out->target, ctx, graph);
}

static hd_status fill(hd_network *out, hd_ctx *ctx, const void *bytes, size_t length, const char *source) {
  *out = (hd_network){
      .text = hd__malloc(length + 1), .length = length, .source = hd__strdup(source), .label_smoothing = -1};
  HD_TRY(HD_ALLOCATED(out->text && out->source, ctx, "%s: out of memory while reading", source));
  memcpy(out->text, bytes, length);
  out->text[length] = 0;
  return check_text(out, ctx);
}

static hd_status keep(hd_network *out, hd_ctx *ctx, const void *bytes, size_t length, const char *source) {
  const hd_status status = fill(out, ctx, bytes, length, source);
  if (status != HD_OK)
    hd__network_fini(out);
  return status;
}

hd_status hd__network_from_text(hd_network *out, hd_ctx *ctx, const char *text, const char *source) {
  return keep(out, ctx, text, strlen(text), source);
}

static int is_path(const char *name) {
  size_t length = strlen(name);
  return strchr(name, '/') || (length > 5 && !strcmp(name + length - 5, ".yaml")) ||
         (length > 4 && !strcmp(name + length - 4, ".yml"));
}

static hd_status unknown_model(hd_ctx *ctx, const char *name) {
  char list[512] = "", known[MOST_MODELS][64];
  hd_line names = {.text = list, .bytes = sizeof list};
  hd_nearest nearest = {.word = name};
  for (int i = 0; i < MOST_MODELS && hd__embed_models[i].name; i++) {
    const char *file = hd__embed_models[i].name;
    snprintf(known[i], sizeof known[i], "%.*s", (int)strcspn(file, "."), file);
    hd__line_add(&names, "%s%s", i ? ", " : "", known[i]);
    hd__nearest_try(&nearest, known[i]);
  }
  if (nearest.name)
    return hd__fail(ctx, HD_E_USAGE, "--model expects %s or a .yaml or .onnx file, found '%s'; did you mean %s?", list,
                    name, nearest.name);
  return hd__fail(ctx, HD_E_USAGE,
                  "--model expects %s or a .yaml or .onnx file, found '%s'; name one of these or give a file", list,
                  name);
}

static const hd_embedded *find_built_in(const char *name) {
  const hd_embedded *e = hd__embed_models;
  while (e->name && (strlen(name) != strcspn(e->name, ".") || strncmp(e->name, name, strlen(name))))
    e++;
  return e->name ? e : NULL;
}

bool hd__network_is_built_in(const char *name) { return find_built_in(name) != NULL; }

int hd_built_in_model_at(hd_built_in_model *out, int32_t index) {
  const hd_embedded *e = hd__embed_models;
  while (e->name && index > 0)
    e++, index--;
  if (index != 0 || !e->name)
    return 0;
  snprintf(out->name, sizeof out->name, "%.*s", (int)strcspn(e->name, "."), e->name);
  out->text = (const char *)e->bytes;
  return 1;
}

hd_status hd__network_find(hd_network *out, hd_ctx *ctx, const char *name_or_path) {
  const hd_embedded *built_in = find_built_in(name_or_path);
  *out = (hd_network){0};
  if (built_in)
    return keep(out, ctx, built_in->bytes, built_in->length, built_in->name);
  if (strchr(name_or_path, '\n'))
    return keep(out, ctx, name_or_path, strlen(name_or_path), "model");
  if (hd__onnx_is_path(name_or_path)) {
    HD_ONNX_OWNED model = {0};
    HD_TRY(hd__onnx_read(&model, ctx, name_or_path));
    HD_TRY(keep(out, ctx, model.text, strlen(model.text), name_or_path));
    out->input = model.input;
    out->classes = model.classes;
    model.input.mean = NULL; /* the network's now */
    model.classes.text = NULL;
    return HD_OK;
  }
  if (!is_path(name_or_path))
    return unknown_model(ctx, name_or_path);
  HD_MAPPED file = {0};
  HD_TRY(hd__file_map(&file, ctx, name_or_path));
  return keep(out, ctx, file.bytes ? (const char *)file.bytes : "", file.length, name_or_path);
}

hd_dataset_request hd__network_request(const hd_network *network, const hd_config *config) {
  hd_dataset_request request = hd__config_data(config);
  request.ignored = network->target.ignored;
  if (request.context == 0)
    request.context = network->context;
  if (network->has_loss && hd__target_numbers(&network->target) && hd__settings(config)->loss < 0 &&
      request.table.labels == HD_LABELS_AUTO && !request.first_rules)
    request.table.labels = HD_LABELS_NUMBERS;
  return request;
}

/* Whether the text now states the facts. */
static hd_status check_resolved(hd_ctx *ctx, const hd_network *n, const hd_model_facts *facts) {
  const char *loss = hd__target_loss(&n->target);
  if (n->asks_input || n->asks_classes)
    return hd__fail(ctx, HD_E_FORMAT,
                    "%s: expected 'input: data' and 'out: classes' as plain words in a UTF-8 file, found them written "
                    "in another way; write numbers",
                    n->source);
  if (!facts->loss || !strcmp(loss, facts->loss))
    return HD_OK;
  return hd__fail(ctx, HD_E_FORMAT, "%s: found no place for the loss %s; write 'loss: %s' into the file", n->source,
                  facts->loss, facts->loss);
}

/* Continues with another text of the same network. */
static void take_over(hd_network *network, hd_network *changed) {
  changed->target.of_classes = network->target.of_classes;
  changed->label_smoothing = network->label_smoothing;
  changed->input = network->input;
  changed->classes = network->classes;
  changed->input_of_data = network->asks_input || network->input_of_data;
  changed->written = network->written ? network->written : network->text;
  if (!network->written)
    network->text = NULL;
  network->written = NULL;
  network->input.mean = NULL;
  network->classes.text = NULL;
  hd__network_fini(network);
  *network = *changed;
}

hd_status hd__network_set_head(hd_network *network, hd_ctx *ctx, const char *head) {
  HD_OWNED char *text = NULL;
  hd_network changed;
  HD_TRY(hd__model_with_head(&text, ctx, network->text, network->length, network->source,
                             strcmp(head, "auto") ? head : "classes"));
  HD_TRY(hd__network_from_text(&changed, ctx, text, network->source));
  take_over(network, &changed);
  return HD_OK;
}

hd_status hd__network_resolve(hd_network *network, hd_ctx *ctx, const hd_model_facts *facts) {
  HD_OWNED char *text = NULL;
  hd_network resolved;
  if (facts->loss && network->target.loss == HD_OP_weighted_sum)
    return hd__fail(ctx, HD_E_USAGE, "--loss expects a model with one loss, found the several of %s; leave it out",
                    network->source);
  HD_TRY(hd__model_resolve(&text, ctx, network->text, network->length, network->source, facts));
  if (!text)
    return check_resolved(ctx, network, facts);
  HD_TRY(hd__network_from_text(&resolved, ctx, text, network->source));
  const hd_status status = check_resolved(ctx, &resolved, facts);
  if (status != HD_OK) {
    hd__network_fini(&resolved);
    return status;
  }
  take_over(network, &resolved);
  return HD_OK;
}

hd_status hd__network_is_of(bool *out, hd_ctx *ctx, const char *recorded, const char *description) {
  return hd__model_is_resolved(out, ctx, description, recorded);
}

void hd__network_fini(hd_network *network) {
  hd__free(network->text);
  hd__free(network->written);
  hd__free(network->source);
  hd__free(network->name);
  hd__free(network->input.mean);
  hd__free(network->classes.text);
  hd__free(network->target.weight);
  hd__free(network->target.head);
  *network = (hd_network){0};
}

/* Whether one of these files has this name. */
static bool is_among(const hd_embedded *files, const char *name) {
  while (files->name && strcmp(files->name, name))
    files++;
  return files->name;
}

static hd_status refuse_input(hd_ctx *ctx, const hd_network *network, const char *wanted, const char *found,
                              const char *data_name, bool transformable) {
  char recipe[128] = "";
  /* A built-in model may need the transforms of the recipe that has its name, which keep the channels. */
  if (transformable && is_among(hd__embed_recipes, network->source))
    snprintf(recipe, sizeof recipe, "use --recipe %.*s, whose transforms produce it for some data sets, or ",
             (int)strcspn(network->source, "."), network->source);
  if (is_among(hd__embed_models, network->source))
    return hd__fail(ctx, HD_E_SHAPE,
                    "expected the input %s of the data set %s, found the built-in model %.*s, which takes %s; %suse "
                    "--model mlp, which takes any samples, or a model file with 'input: data'",
                    wanted, data_name, (int)strcspn(network->source, "."), network->source, found, recipe);
  return hd__fail(ctx, HD_E_SHAPE,
                  "%s: expected the input %s of the data set %s, found input %s; %schange 'input' or --data",
                  network->source, wanted, data_name, found, recipe);
}

hd_status hd__network_graph(hd_graph **out, hd_ctx *ctx, const hd_network *network) {
  HD_TRY(hd__model_parse(out, NULL, ctx, network->text, network->length, network->source));
  hd_status status = HD_OK;
  if (network->label_smoothing >= 0)
    status = hd__graph_smooth_labels(*out, ctx, network->label_smoothing);
  if (network->target.of_classes)
    hd__graph_soften_labels(*out);
  return HD_CREATED(status, out, hd__graph_destroy);
}

/* ---- Targets ---- */

static hd_status init_heads(hd_target *out, hd_ctx *ctx, const hd_graph *graph, const hd_weighted_sum_geom *of) {
  const hd_node *joined = hd__graph_head(graph);
  HD_TRY(HD_NEW(out->head, of->heads, ctx, "out of memory for the heads of a model"));
  out->heads = of->heads;
  out->numbers = hd__heads_targets(of);
  for (int32_t k = 0; k < of->heads; k++) {
    out->head[k].is = of->head[k];
    snprintf(out->head[k].name, sizeof out->head[k].name, "%s", graph->values[joined->in[k]].name);
  }
  return HD_OK;
}

hd_status hd__target_init(hd_target *out, hd_ctx *ctx, const hd_graph *graph) {
  const hd_node *node = hd__graph_loss_node(graph);
  bool classes = node->op == HD_OP_cross_entropy;
  const float *weight = node->in[2] < 0 ? NULL : graph->values[node->in[2]].constant;
  *out = (hd_target){.loss = node->op, .scores = node->geom.ci, .numbers = node->geom.ci, .ignored = -1};
  if (node->op == HD_OP_weighted_sum)
    return init_heads(out, ctx, graph, &node->geom.weighted_sum);
  if (classes && graph->values[graph->label].shape.rank > 0 && graph->values[graph->label].dtype == HD_I32)
    out->places = graph->values[graph->label].shape.dim[0];
  if (classes && node->geom.cross_entropy.ignore_index >= 0)
    out->ignored = node->geom.cross_entropy.ignore_index;
  if (!classes || !weight)
    return HD_OK;
  HD_TRY(HD_NEW_RAW(out->weight, out->scores, ctx, "out of memory for the weights of classes"));
  for (int32_t i = 0; i < out->scores; i++)
    out->weight[i] = (double)weight[i];
  return HD_OK;
}

/* Class labels as targets: probabilities are 0 or 1. */
static hd_status check_labels(hd_ctx *ctx, const hd_target *target, const hd_split *split, const char *source,
                              const char *data_name) {
  const char *loss = hd__op_info(target->loss)->name;
  if (target->loss == HD_OP_cross_entropy) {
    if (target->scores < split->classes)
      return hd__fail(
          ctx, HD_E_SHAPE,
          "%s: expected at least %d scores for the classes of %s, found %d; give the last layer 'out: %d' or "
          "'out: classes', or, if the label %d is not a class, the loss 'ignore_index: %d'%s",
          source, split->classes, data_name, target->scores, split->classes, split->classes - 1, split->classes - 1,
          target->scores == 1 ? ", or train with --loss mse if labels are numbers to predict" : "");
    return HD_OK;
  }
  if (target->scores != 1)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected one output for the loss %s on the class labels of %s, found %d; give the last layer "
                    "'out: 1', train with --loss cross_entropy, or give data with float targets",
                    source, loss, data_name, target->scores);
  for (int64_t i = 0; target->loss == HD_OP_bce_with_logits && i < split->count; i++)
    if (split->labels[i] > 1)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected labels 0 and 1 in %s for the loss %s, found %d at index %lld; train with --loss "
                      "cross_entropy",
                      source, data_name, loss, split->labels[i], (long long)i);
  return HD_OK;
}

/* Texts of a table are classes, for a head that tells classes apart. */
static hd_status check_head_texts(hd_ctx *ctx, const hd_target_head *head, const hd_split *split,
                                  const char *data_name) {
  const bool classes = head->is.loss == HD_HEAD_CROSS_ENTROPY, chances = head->is.loss == HD_HEAD_BCE_WITH_LOGITS;
  const int32_t most = classes ? head->is.count : chances ? 2 : 0;
  for (int32_t k = 0; split->target_column && k < hd__head_numbers(&head->is); k++) {
    const int32_t target = head->is.target + k, texts = split->target_column[target].classes;
    if (texts > most)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected numbers or up to %d texts in label column %d, for the head '%s' and its loss %s, "
                      "found %d texts, such as '%.48s'; %s",
                      data_name, most, target + 1, head->name, hd__head_loss(head), texts,
                      split->target_column[target].class_name[0],
                      classes ? "give its layer more outputs" : "name another column with --label");
  }
  return HD_OK;
}

/* The numbers of classes, and chances, among the targets of several heads. */
static hd_status check_head(hd_ctx *ctx, const hd_target_head *head, const hd_split *split, const char *data_name) {
  const bool classes = head->is.loss == HD_HEAD_CROSS_ENTROPY, chances = head->is.loss == HD_HEAD_BCE_WITH_LOGITS;
  const float high = classes ? (float)(head->is.count - 1) : 1;
  for (int64_t i = 0; split->targets && i < split->count && (classes || chances); i++)
    for (int32_t k = 0; k < hd__head_numbers(&head->is); k++) {
      const float target = split->targets[i * split->outputs + head->is.target + k];
      if (!(target >= 0 && target <= high) || (classes && target != (float)(int32_t)target))
        return hd__fail(ctx, HD_E_FORMAT,
                        "%s: expected %s from 0 to %g in target %d, for the head '%s' and its loss %s, found %g at "
                        "index %lld; correct it",
                        data_name, classes ? "the number of a class" : "targets", (double)high, head->is.target + k,
                        head->name, hd__head_loss(head), (double)target, (long long)i);
    }
  return HD_OK;
}

static hd_status check_heads(hd_ctx *ctx, const hd_target *target, const hd_split *split, const char *source,
                             const char *data_name) {
  char list[512] = "";
  hd_line names = {.text = list, .bytes = sizeof list};
  for (int32_t k = 0; k < target->heads; k++)
    hd__line_add(&names, "%s%d for %s", k ? ", " : "", hd__head_numbers(&target->head[k].is), target->head[k].name);
  if (target->numbers != split->outputs)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected %d targets for each sample (%s) in %s, found %d; give an array of that many columns, "
                    "or name those of a table with --label",
                    source, target->numbers, list, data_name, split->outputs > 0 ? split->outputs : 1);
  for (int32_t k = 0; k < target->heads; k++) {
    HD_TRY(check_head_texts(ctx, &target->head[k], split, data_name));
    HD_TRY(check_head(ctx, &target->head[k], split, data_name));
  }
  return HD_OK;
}

/* One loss reads all columns alike. */
static hd_status check_texts(hd_ctx *ctx, const hd_split *split, const char *source, const char *data_name) {
  for (int32_t k = 0; split->target_column && k < split->outputs; k++)
    if (split->target_column[k].class_name)
      return hd__fail(ctx, HD_E_FORMAT,
                      "%s: expected numbers in label column %d of %s, found texts such as '%.48s'; give a model with a "
                      "loss for each column (see 'Several losses'), or one column as --label",
                      source, k + 1, data_name, split->target_column[k].class_name[0]);
  return HD_OK;
}

static hd_status check_numbers(hd_ctx *ctx, const hd_target *target, const hd_split *split, const char *source,
                               const char *data_name) {
  const char *loss = hd__op_info(target->loss)->name;
  if (target->loss == HD_OP_cross_entropy && !target->of_classes)
    return hd__fail(
        ctx, HD_E_SHAPE,
        "%s: expected class labels for the loss cross_entropy, but the labels of %s are floats; give integers from 0 "
        "to %d, or train with --loss mse, or write 'loss: mse', l1, huber or bce_with_logits",
        source, data_name, HD_DATA_MAX_CLASSES - 1);
  if (target->scores != split->outputs)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected %d output%s for the targets of %s, found %d; give the last layer 'out: %d'", source,
                    split->outputs, split->outputs == 1 ? "" : "s", data_name, target->scores, split->outputs);
  HD_TRY(check_texts(ctx, split, source, data_name));
  for (int64_t i = 0; target->loss == HD_OP_bce_with_logits && split->targets && i < split->count * split->outputs; i++)
    if (split->targets[i] < 0 || split->targets[i] > 1)
      return hd__fail(
          ctx, HD_E_FORMAT,
          "%s: expected targets from 0 to 1 in %s for the loss %s, found %g at index %lld; train with --loss mse",
          source, data_name, loss, (double)split->targets[i], (long long)(i / split->outputs));
  return HD_OK;
}

/* Masks as targets: a score for each class of each pixel. */
static hd_status check_masks(hd_ctx *ctx, const hd_target *target, const hd_split *split, const char *source,
                             const char *data_name) {
  if (target->loss != HD_OP_cross_entropy || target->places != hd__split_plane(split))
    return hd__fail(
        ctx, HD_E_SHAPE,
        "%s: expected scores for each of the %dx%d pixels of %s and the loss cross_entropy, since each pixel "
        "has a class, found %s; end the model with a conv2d 'out: classes' at the size of the pictures, "
        "without flatten, such as --model unet-small",
        source, split->height, split->width, data_name,
        target->places ? "scores of another size" : "one prediction for each sample");
  if (target->scores > HD_NO_CLASS)
    return hd__fail(ctx, HD_E_UNSUPPORTED, "%s: expected at most %d classes of pixels, found %d; use fewer", source,
                    HD_NO_CLASS, target->scores);
  return check_labels(ctx, target, split, source, data_name);
}

/* Whether the split's targets are what the loss reads; `source` names the model, `data_name` the data in messages. */
static hd_status check_target(hd_ctx *ctx, const hd_target *target, const hd_split *split, const char *source,
                              const char *data_name) {
  if (split->window && (target->loss != HD_OP_cross_entropy || target->places != split->width))
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected scores for each of the %d tokens of a window of %s and the loss cross_entropy, found "
                    "%s; begin the model with an embedding, and end it with a linear layer over its channels, without "
                    "flatten",
                    source, split->width, data_name, target->places ? "other" : "one label a sample");
  if (split->masked)
    return check_masks(ctx, target, split, source, data_name);
  if (!split->window && target->places > 0)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected one score per class for %s, found scores for each of %d places; end the model with "
                    "flatten and linear, or give data with masks, a class for each pixel",
                    source, data_name, target->places);
  if (target->heads > 0)
    return check_heads(ctx, target, split, source, data_name);
  return split->outputs ? check_numbers(ctx, target, split, source, data_name)
                        : check_labels(ctx, target, split, source, data_name);
}

hd_status hd__network_check(hd_ctx *ctx, const hd_network *network, const hd_graph *graph, const hd_split *split,
                            const char *data_name, bool transformed) {
  hd_shape image = {3, {split->channels, split->height, split->width}};
  const hd_shape *input = &graph->values[graph->input].shape, of_image = hd__shape_image(input);
  char wanted[HD_SHAPE_TEXT_BYTES], found[HD_SHAPE_TEXT_BYTES];
  if (split->mixed)
    return hd__fail(ctx, HD_E_SHAPE,
                    "%s: expected samples of one size, found %s; resize them with a transform: "
                    "--transforms '[{resize: [64, 64]}, to_float, normalise]'",
                    data_name, split->mixed);
  bool fits = split->flat && of_image.dim[0] == 1 && hd__shape_elems(input) == split->width;
  if (!fits && !hd__shape_equal(&image, &of_image))
    return refuse_input(ctx, network, hd__shape_text(wanted, sizeof wanted, &image),
                        hd__shape_text(found, sizeof found, input), data_name,
                        !transformed && of_image.dim[0] == split->channels);
  return check_target(ctx, &network->target, split, network->source, data_name);
}

const char *hd__target_loss(const hd_target *target) { return hd__op_info(target->loss)->name; }

int32_t hd__target_classes(const hd_target *target) {
  bool binary = target->loss == HD_OP_bce_with_logits && target->scores == 1;
  return target->loss == HD_OP_cross_entropy || target->of_classes ? target->scores : binary ? 2 : 0;
}

const char *hd__head_loss(const hd_target_head *head) { return hd__op_info(hd__head_op(&head->is))->name; }

bool hd__target_numbers(const hd_target *target) {
  return target->loss != HD_OP_weighted_sum && target->loss != HD_OP_cross_entropy &&
         target->loss != HD_OP_bce_with_logits && !target->of_classes;
}

bool hd__target_judges(const hd_target *target, const hd_split *split) {
  return split->labels && hd__target_classes(target) > 0;
}

bool hd__target_counts(const hd_target *target, const hd_split *split, int64_t sample) {
  return split->labels[sample] != target->ignored && !hd__skips_has(split, sample);
}
