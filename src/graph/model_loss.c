/* Reads a model file's loss: a name, or a mapping with settings.
 *
 *     loss: mse
 *     loss: {op: cross_entropy, weight: [1, 2.5], ignore_index: 255, label_smoothing: 0.1}
 *
 * The loss is read after the layers, since the number of weights must equal that of scores. */
#include <string.h>

#include "base/alloc.h"
#include "base/yaml_bind.h"
#include "graph/model.h"
#include "graph/model_layer.h"

hd_status hd__model_find_loss(hd_op *out, hd_ctx *ctx, const hd_yaml_node *node) {
  const char *name;
  HD_TRY(hd__yaml_text(&name, ctx, node));
  *out = hd__op_find(name);
  const hd_op_info *info = *out < HD_OP_COUNT ? hd__op_info(*out) : NULL;
  if (info && info->rule && info->rule->several)
    return hd__yaml_fail(ctx, node,
                         "expected a loss, found '%s', which is written as a list; write '- LAYER: LOSS' "
                         "for each head",
                         name);
  if (info && info->rule && info->rule->loss && info->role == HD_ROLE_FORWARD)
    return HD_OK;
  return hd__yaml_fail(ctx, node, "expected a loss, found '%s'; use cross_entropy, mse, l1, huber or bce_with_logits",
                       name);
}

/* One number for each score; weights of positive examples may also be one number for all. */
static hd_status read_weights(float *weight, hd_ctx *ctx, const hd_yaml_node *node, const hd_op_setting *setting,
                              int scores) {
  double number, sum = 0;
  bool one = node->kind == HD_YAML_SCALAR && !strcmp(node->key, "pos_weight");
  if (!one) {
    HD_TRY(hd__yaml_expect(ctx, node, HD_YAML_SEQUENCE, "a list of weights"));
    if (node->count != scores)
      return hd__yaml_fail(ctx, node, "expected %d numbers as '%s', one for each score, found %d; write %d", scores,
                           node->key, node->count, scores);
  }
  for (int i = 0; i < scores; i++) {
    HD_TRY(hd__yaml_number(&number, ctx, one ? node : &node->item[i], setting->low, setting->high));
    weight[i] = (float)number;
    sum += number;
  }
  if (sum > 0)
    return HD_OK;
  return hd__yaml_fail(ctx, node, "expected a weight above 0 in '%s', found only zeros; change one", node->key);
}

static hd_status add_loss(hd_graph *graph, hd_ctx *ctx, int scores, const hd_loss *loss, const hd_yaml_node *at) {
  hd_status status = hd__graph_add_loss(graph, ctx, scores, loss);
  return status == HD_OK ? HD_OK : hd__fail_in(ctx, status, "%s:%d", at->source, at->line);
}

hd_status hd__model_read_loss(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *root, int scores,
                              const hd_yaml_node *last) {
  const hd_yaml_node *node = hd__yaml_get(root, "loss"), *weights = NULL;
  hd_loss loss = {.op = HD_OP_cross_entropy};
  const hd_yaml_node *name = node && node->kind == HD_YAML_MAPPING ? hd__yaml_get(node, "op") : node;
  if (node && !name)
    return hd__yaml_fail(ctx, node, "expected 'op: NAME' in the loss, found none; add it");
  if (name)
    HD_TRY(hd__model_find_loss(&loss.op, ctx, name));
  const hd_op_rule *rule = hd__op_info(loss.op)->rule;
  hd__op_defaults(&loss.attrs, rule->settings);
  if (!node || node->kind != HD_YAML_MAPPING)
    return add_loss(graph, ctx, scores, &loss, last);
  HD_TRY(hd__layer_only_keys(ctx, node, (const char *const[]){"op", NULL}, rule->settings));
  HD_TRY(hd__layer_settings(&loss.attrs, ctx, node, rule->settings, "loss"));
  const hd_op_setting *setting = hd__op_weights(rule);
  if (setting)
    weights = hd__yaml_get(node, setting->key);
  if (!weights)
    return add_loss(graph, ctx, scores, &loss, last);
  const hd_shape *shape = &graph->values[scores].shape;
  const int64_t count = shape->rank == 3 ? shape->dim[0] : hd__shape_elems(shape);
  HD_OWNED float *weight = NULL;
  HD_TRY(HD_NEW_RAW(weight, count, ctx, "out of memory while reading a model"));
  loss.weight = weight;
  HD_TRY(read_weights(weight, ctx, weights, setting, (int)count));
  return add_loss(graph, ctx, scores, &loss, last);
}
