/* Reads the losses of a network with several heads: a list, in the order of their targets.
 *
 *     loss:
 *       - digit: cross_entropy
 *       - size: {op: mse, loss_weight: 0.25}
 *
 * An entry names a layer, whose flat output is the head's scores. They are joined to one value, "outputs", of which
 * weighted_sum is the loss: all that follows knows one output. cross_entropy reads one target, the number of a class,
 * the others one for each score. */
#include <string.h>

#include "graph/model.h"
#include "graph/model_layer.h"

static const char JOINED[] = "outputs";

/* The output of a layer; -1: there is none. */
static int find_output(const hd_graph *graph, const char *layer) {
  int found = -1;
  for (int i = 0; i < graph->node_count; i++)
    if (!strcmp(graph->nodes[i].name, layer))
      found = graph->nodes[i].out[0];
  return found;
}

static hd_status find_scores(int *out, const hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *entry) {
  char text[HD_SHAPE_TEXT_BYTES];
  HD_TRY(hd__yaml_expect(ctx, entry, HD_YAML_MAPPING, "a head and its loss (- LAYER: LOSS)"));
  if (entry->count != 1)
    return hd__yaml_fail(ctx, entry, "expected one head (- LAYER: LOSS), found %d keys; put settings in braces",
                         entry->count);
  const char *layer = entry->item[0].key;
  *out = find_output(graph, layer);
  if (*out < 0)
    return hd__yaml_fail(ctx, entry, "expected the name of a layer, found '%s'; name one of the model's", layer);
  const hd_value *scores = &graph->values[*out];
  if (scores->shape.rank != 1 || scores->order.rank != 0)
    return hd__yaml_fail(ctx, entry, "expected flat scores of the head '%s', found %s%s; end it with a linear layer",
                         layer, scores->order.rank ? "a flattened image of " : "",
                         hd__shape_text(text, sizeof text, &scores->shape));
  return HD_OK;
}

/* Settings that need a divisor of their own for each head. */
static hd_status refuse_settings(hd_ctx *ctx, const hd_yaml_node *loss) {
  static const char *const unknown[] = {"weight", "pos_weight", "ignore_index"};
  for (int i = 0; i < 3 && loss->kind == HD_YAML_MAPPING; i++)
    if (hd__yaml_get(loss, unknown[i]))
      return hd__yaml_fail(ctx, hd__yaml_get(loss, unknown[i]),
                           "expected a loss of several without '%s', found it; leave it out", unknown[i]);
  return HD_OK;
}

static hd_status read_settings(hd_loss_head *head, double *weight, hd_ctx *ctx, const hd_yaml_node *loss, hd_op op) {
  const hd_op_rule *rule = hd__op_info(op)->rule;
  hd_attrs attrs;
  hd__op_defaults(&attrs, rule->settings);
  if (loss->kind == HD_YAML_MAPPING) {
    HD_TRY(refuse_settings(ctx, loss));
    HD_TRY(hd__layer_only_keys(ctx, loss, (const char *const[]){"op", "loss_weight", NULL}, rule->settings));
    HD_TRY(hd__layer_settings(&attrs, ctx, loss, rule->settings, "loss"));
    if (hd__yaml_get(loss, "loss_weight"))
      HD_TRY(hd__yaml_number(weight, ctx, hd__yaml_get(loss, "loss_weight"), 1e-6, 1e6));
  }
  head->setting = op == HD_OP_cross_entropy ? attrs.label_smoothing : op == HD_OP_huber ? attrs.delta : 0;
  return HD_OK;
}

static hd_status read_loss(hd_loss_head *head, hd_ctx *ctx, const hd_yaml_node *loss) {
  const hd_yaml_node *name = loss->kind == HD_YAML_MAPPING ? hd__yaml_get(loss, "op") : loss;
  double weight = 1;
  hd_op op;
  if (!name)
    return hd__yaml_fail(ctx, loss, "expected 'op: NAME' in the loss of '%s', found none; add it", loss->key);
  HD_TRY(hd__model_find_loss(&op, ctx, name));
  while (hd__head_op(head) != op)
    head->loss++;
  HD_TRY(read_settings(head, &weight, ctx, loss, op));
  head->share = (float)(op == HD_OP_cross_entropy ? weight : weight / head->count);
  return HD_OK;
}

static hd_status read_head(hd_weighted_sum_geom *sum, int in[HD_LOSS_HEADS], const hd_graph *graph, hd_ctx *ctx,
                           const hd_yaml_node *entry) {
  hd_loss_head *head = &sum->head[sum->heads];
  HD_TRY(find_scores(&in[sum->heads], graph, ctx, entry));
  for (int i = 0; i < sum->heads; i++)
    if (in[i] == in[sum->heads])
      return hd__yaml_fail(ctx, entry, "expected each head once, found '%s' again; leave it out", entry->item[0].key);
  head->count = graph->values[in[sum->heads]].shape.dim[0];
  if (sum->heads > 0) {
    head->first = head[-1].first + head[-1].count;
    head->target = hd__heads_targets(sum);
  }
  HD_TRY(read_loss(head, ctx, &entry->item[0]));
  sum->heads++;
  return HD_OK;
}

hd_status hd__model_read_heads(hd_graph *graph, hd_ctx *ctx, const hd_yaml_node *list) {
  hd_weighted_sum_geom sum = {0};
  int in[HD_LOSS_HEADS], scores;
  if (list->count < 2 || list->count > HD_LOSS_HEADS)
    return hd__yaml_fail(ctx, list,
                         "expected 2 to %d heads (- LAYER: LOSS) as 'loss', found %d; write a single loss "
                         "without a list",
                         HD_LOSS_HEADS, list->count);
  if (find_output(graph, JOINED) >= 0)
    return hd__yaml_fail(ctx, list, "expected no layer '%s' beside several losses, found one; rename it", JOINED);
  for (int i = 0; i < list->count; i++)
    HD_TRY(read_head(&sum, in, graph, ctx, &list->item[i]));
  const hd_layer_spec join = {HD_OP_concat, JOINED, in, sum.heads, &(hd_attrs){0}};
  const hd_loss loss = {.op = HD_OP_weighted_sum, .heads = &sum};
  hd_status status = hd__graph_add(&scores, graph, ctx, &join);
  HD_THEN(status, hd__graph_add_loss(graph, ctx, scores, &loss));
  return status == HD_OK ? HD_OK : hd__fail_in(ctx, status, "%s:%d", list->source, list->line);
}
