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
#include "graph/op.h"

/* A limit for weights and deltas, far above useful values; it keeps sums finite. */
static const double MOST = 1e6;
static const double LEAST_DELTA = 1e-6;

static const struct {
  hd_op op;
  const char *keys[5];
  const char *weight; /* key of its weights */
} losses[] = {
    {HD_OP_cross_entropy, {"op", "weight", "ignore_index", "label_smoothing", NULL}, "weight"},
    {HD_OP_mse, {"op", NULL}, NULL},
    {HD_OP_l1, {"op", NULL}, NULL},
    {HD_OP_huber, {"op", "delta", NULL}, NULL},
    {HD_OP_bce_with_logits, {"op", "pos_weight", NULL}, "pos_weight"},
};

static hd_status find_loss(int *out, hd_ctx *ctx, const hd_yaml_node *node) {
  const char *name;
  HD_TRY(hd__yaml_text(&name, ctx, node));
  for (*out = 0; *out < (int)(sizeof losses / sizeof *losses); ++*out)
    if (!strcmp(hd__op_info(losses[*out].op)->name, name))
      return HD_OK;
  return hd__yaml_fail(ctx, node, "expected a loss, found '%s'; use cross_entropy, mse, l1, huber or bce_with_logits",
                       name);
}

/* One number for each score; weights of positive examples may also be one number for all. */
static hd_status read_weights(float *weight, hd_ctx *ctx, const hd_yaml_node *node, int scores) {
  double number, sum = 0;
  bool one = node->kind == HD_YAML_SCALAR && !strcmp(node->key, "pos_weight");
  if (!one) {
    HD_TRY(hd__yaml_expect(ctx, node, HD_YAML_SEQUENCE, "a list of weights"));
    if (node->count != scores)
      return hd__yaml_fail(ctx, node, "expected %d numbers as '%s', one for each score, found %d; write %d", scores,
                           node->key, node->count, scores);
  }
  for (int i = 0; i < scores; i++) {
    HD_TRY(hd__yaml_number(&number, ctx, one ? node : &node->item[i], 0, MOST));
    weight[i] = (float)number;
    sum += number;
  }
  if (sum > 0)
    return HD_OK;
  return hd__yaml_fail(ctx, node, "expected a weight above 0 in '%s', found zeros only; change one", node->key);
}

static hd_status read_settings(hd_attrs *attrs, hd_ctx *ctx, const hd_yaml_node *loss) {
  const hd_yaml_node *ignore = hd__yaml_get(loss, "ignore_index"), *delta = hd__yaml_get(loss, "delta");
  const hd_yaml_node *smoothing = hd__yaml_get(loss, "label_smoothing");
  int64_t whole = attrs->ignore_index;
  double share = 0, corner = 1;
  if (ignore)
    HD_TRY(hd__yaml_int(&whole, ctx, ignore, INT32_MIN, INT32_MAX));
  if (smoothing)
    HD_TRY(hd__yaml_number(&share, ctx, smoothing, 0, 1));
  if (delta)
    HD_TRY(hd__yaml_number(&corner, ctx, delta, LEAST_DELTA, MOST));
  attrs->ignore_index = (int32_t)whole;
  attrs->label_smoothing = (float)share;
  attrs->delta = (float)corner;
  return HD_OK;
}

static hd_status add_loss(hd_graph *graph, hd_ctx *ctx, int scores, const hd_loss *loss, const hd_yaml_node *at) {
  hd_status status = hd__graph_add_loss(graph, ctx, scores, loss);
  return status == HD_OK ? HD_OK : hd__fail_in(ctx, status, "%s:%d", at->source, at->line);
}

hd_status hd__model_read_loss(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *root, int scores,
                              const hd_yaml_node *last) {
  const hd_yaml_node *node = hd__yaml_get(root, "loss"), *weights = NULL;
  hd_loss loss = HD_LOSS_DEFAULT;
  int which;
  if (!node)
    return add_loss(graph, ctx, scores, &loss, last);
  const hd_yaml_node *name = node->kind == HD_YAML_MAPPING ? hd__yaml_get(node, "op") : node;
  if (!name)
    return hd__yaml_fail(ctx, node, "expected 'op: NAME' in the loss, found none; add it");
  HD_TRY(find_loss(&which, ctx, name));
  loss.op = losses[which].op;
  if (node->kind != HD_YAML_MAPPING)
    return add_loss(graph, ctx, scores, &loss, last);
  HD_TRY(hd__yaml_only_keys(ctx, node, losses[which].keys));
  HD_TRY(read_settings(&loss.attrs, ctx, node));
  if (losses[which].weight)
    weights = hd__yaml_get(node, losses[which].weight);
  if (!weights)
    return add_loss(graph, ctx, scores, &loss, last);
  int64_t count = hd__shape_elems(&graph->values[scores].shape);
  float *weight = hd__malloc((size_t)count * sizeof *weight);
  loss.weight = weight;
  hd_status status = weight ? read_weights(weight, ctx, weights, (int)count)
                            : hd__fail(ctx, HD_E_NOMEM, "out of memory while reading a model");
  if (status == HD_OK)
    status = add_loss(graph, ctx, scores, &loss, last);
  hd__free(weight);
  return status;
}
