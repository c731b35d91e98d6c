/* Adds nodes and the loss as written in a model, and changes the loss. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"

/* A shared parameter of another layer must have the same shape and memory order as the new one would have. */
static hd_status share_param(hd_graph *graph, hd_ctx *ctx, const hd_node *node, int slot, const hd_op_param *like) {
  char wanted[HD_SHAPE_TEXT_BYTES], found[HD_SHAPE_TEXT_BYTES];
  const hd_value *value = &graph->values[node->in[slot]];
  const hd_param *param = &graph->params[value->param];
  const int32_t *in_memory = like->in_memory.dim;
  if (!hd__shape_equal(&value->shape, &like->shape))
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': expected a %s of shape %s to share, found %s of shape %s; make them the same",
                    node->name, like->suffix, hd__shape_text(wanted, sizeof wanted, &like->shape), value->name,
                    hd__shape_text(found, sizeof found, &value->shape));
  if (param->c == in_memory[1] && param->h == in_memory[2] && param->w == in_memory[3])
    return hd__graph_new_alias(graph, ctx, node, like->suffix, value->param);
  return hd__fail(ctx, HD_E_SHAPE,
                  "layer '%s': expected to share %s with a layer that reads values flattened in the same way, found a "
                  "flattened image and flat values; share within one kind only",
                  node->name, value->name);
}

/* Parameters are in[1], in[2] ...; those that are already set are shared. */
static hd_status make_params(hd_graph *graph, hd_ctx *ctx, hd_node *node, const hd_op_shapes *s) {
  for (int i = 0; i < s->params; i++)
    if (node->in[1 + i] < 0)
      HD_TRY(hd__graph_new_param(&node->in[1 + i], graph, ctx, node, i, &s->param[i]));
    else
      HD_TRY(share_param(graph, ctx, node, 1 + i, &s->param[i]));
  return HD_OK;
}

/* A text of windows of one token, whose place has the shape of a pooled image. */
static bool reads_one_token(const hd_graph *graph) {
  return graph->node_count > 0 && graph->nodes[0].op == HD_OP_embedding &&
         hd__shape_elems(&graph->values[graph->input].shape) == 1;
}

/* A linear layer over the last dimension, the channels of the places of an image of height 1, is a convolution of one
 * pixel. */
static void make_pointwise(hd_node *node, const hd_shape *x, bool one_token) {
  if (node->op != HD_OP_linear || x->rank != 3 || x->dim[1] != 1 ||
      (x->dim[2] == 1 && !node->attrs.pointwise && !one_token))
    return;
  node->op = HD_OP_conv2d;
  node->attrs.pointwise = node->attrs.groups = 1;
  for (int i = 0; i < 2; i++)
    node->attrs.kernel[i] = node->attrs.stride[i] = node->attrs.dilation[i] = 1;
}

/* Numbers of rows have no gradient, so that only samples may be such. */
static hd_status check_numbers(hd_ctx *ctx, const hd_graph *graph, const hd_node *node) {
  const hd_op_info *info = hd__op_info(node->op);
  if (!info->rule->numbers || node->in[0] == graph->input)
    return HD_OK;
  return hd__fail(ctx, HD_E_SHAPE,
                  "layer '%s': %s expects the numbers of samples, found the output of '%s'; write "
                  "'from: input'",
                  node->name, info->name, graph->values[node->in[0]].name);
}

/* Applies the shape rule: geometry, parameters, outputs. */
static hd_status infer(hd_graph *graph, hd_ctx *ctx, hd_node *node, int inputs) {
  make_pointwise(node, &graph->values[node->in[0]].shape, reads_one_token(graph));
  HD_TRY(check_numbers(ctx, graph, node));
  const hd_op_info *info = hd__op_info(node->op);
  hd_op_shapes s = {.ctx = ctx, .layer = node->name, .op = info->name, .attrs = &node->attrs, .inputs = inputs};
  for (int i = 0; i < inputs; i++)
    if (node->in[i] >= 0) {
      s.x[i] = graph->values[node->in[i]].shape;
      s.order[i] = graph->values[node->in[i]].order;
    }
  HD_TRY(info->rule->shapes(&s));
  if (node->op == HD_OP_conv2d && node->attrs.init == HD_INIT_WHITEN && node->in[0] != graph->input)
    return hd__fail(
        ctx, HD_E_SHAPE,
        "layer '%s': 'init: whiten' expects a layer that reads the input, found one that reads '%s'; use it "
        "in the first layer",
        node->name, graph->values[node->in[0]].name);
  hd__op_settings_to_geom(&s.geom, &node->attrs, info->rule->settings);
  node->geom = s.geom;
  node->view = s.view;
  HD_TRY(make_params(graph, ctx, node, &s));
  HD_TRY(hd__graph_output(graph, ctx, node, 0, NULL, &(hd_value_type){HD_VALUE_ROWS, HD_F32, s.y}));
  graph->values[node->out[0]].order = s.y_order;
  if (s.kept.rank > 0)
    return hd__graph_output(graph, ctx, node, 1, "kept", &(hd_value_type){HD_VALUE_ROWS, HD_F32, s.kept});
  return s.argmax ? hd__graph_output(graph, ctx, node, 1, "argmax", &(hd_value_type){HD_VALUE_ROWS, HD_U8, s.y})
                  : HD_OK;
}

/* Inputs behind the first `count` are parameters of another node, which this one shares. */
static hd_status add_node(int *out, hd_graph *graph, hd_ctx *ctx, const hd_layer_spec *layer) {
  assert(layer->inputs <= HD_MAX_IN);
  *out = -1;
  hd_node *node;
  HD_TRY(hd__graph_new_node(&node, graph, ctx, layer->op, layer->name, graph->written_count));
  int index = (int)(node - graph->nodes);
  memcpy(node->in, layer->in, (size_t)layer->inputs * sizeof *layer->in);
  node->attrs = *layer->attrs;
  hd_status status = infer(graph, ctx, node, layer->inputs);
  if (status != HD_OK) {
    hd__free(graph->nodes[--graph->node_count].name);
    return status;
  }
  graph->written_count++;
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (node->out[i] >= 0)
      graph->values[node->out[i]].producer = index;
  *out = node->out[0];
  return HD_OK;
}

/* ---- Recurrent layers ---- */

enum { SUFFIX_BYTES = 16, NAME_BYTES = 96 };

/* Gives the parameters from `first` on, a weight and perhaps a bias, PyTorch's names and range: "NAME.weight_ih_l0". */
static hd_status name_params(hd_graph *graph, hd_ctx *ctx, int first, const hd_layer_spec *layer, const char *suffix) {
  for (int i = first; i < graph->param_count; i++) {
    hd_value *value = &graph->values[graph->params[i].value];
    char *name = hd__printf_alloc("%s.%s_%s", layer->name, i == first ? "weight" : "bias", suffix);
    HD_TRY(HD_ALLOCATED(name, ctx, "out of memory while building the graph"));
    hd__free(value->name);
    value->name = name;
    graph->params[i].fan_in = layer->attrs->hidden_size;
    graph->params[i].op = layer->op;
  }
  return HD_OK;
}

/* A node of one of a recurrent layer's layers: `which` is "ih" or "hh". The last one has the layer's name. */
static hd_status add_part(int *value, hd_graph *graph, hd_ctx *ctx, const hd_layer_spec *layer, const char *which,
                          int number, hd_op op) {
  const int in = *value, first = graph->param_count, gates = hd__op_info(layer->op)->rule->gates;
  hd_attrs attrs = *layer->attrs;
  char suffix[SUFFIX_BYTES], name[NAME_BYTES];
  snprintf(suffix, sizeof suffix, "%s_l%d", which, number);
  const bool last = op == layer->op && number + 1 == attrs.num_layers;
  snprintf(name, sizeof name, "%s%s%s", layer->name, last ? "" : ".", last ? "" : suffix);
  attrs.out = gates * attrs.hidden_size;
  attrs.pointwise = op == HD_OP_linear;
  HD_TRY(add_node(value, graph, ctx, &(hd_layer_spec){op, name, &in, 1, &attrs}));
  return name_params(graph, ctx, first, layer, suffix);
}

/* Each layer is a linear layer of the places, which computes what the gates get of the input, and the recurrence. */
static hd_status add_recurrent(int *out, hd_graph *graph, hd_ctx *ctx, const hd_layer_spec *layer) {
  char text[HD_SHAPE_TEXT_BYTES];
  const hd_shape *x = &graph->values[layer->in[0]].shape;
  int value = layer->in[0];
  if (x->rank != 3 || x->dim[1] != 1)
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': %s expects channels for each place of a line, found %s; put it behind an embedding or "
                    "give it a signal",
                    layer->name, hd__op_info(layer->op)->name, hd__shape_text(text, sizeof text, x));
  for (int i = 0; i < layer->attrs->num_layers; i++) {
    HD_TRY(add_part(&value, graph, ctx, layer, "ih", i, HD_OP_linear));
    HD_TRY(add_part(&value, graph, ctx, layer, "hh", i, layer->op));
  }
  *out = value;
  return HD_OK;
}

hd_status hd__graph_add(int *out, hd_graph *graph, hd_ctx *ctx, const hd_layer_spec *layer) {
  const hd_op_rule *rule = hd__op_info(layer->op)->rule;
  return rule && rule->gates > 0 ? add_recurrent(out, graph, ctx, layer) : add_node(out, graph, ctx, layer);
}

/* The weights of the loss, a constant with one element per score, of one place. */
static hd_status add_weights(int *out, hd_graph *graph, hd_ctx *ctx, const float *weight, const hd_shape *scores) {
  const hd_shape shape = {1, {scores->dim[0]}};
  HD_TRY(hd__graph_new_value(out, graph, ctx, "loss.weight", &(hd_value_type){HD_VALUE_CONST, HD_F32, shape}));
  hd_value *value = &graph->values[*out];
  size_t used = (size_t)hd__shape_elems(&value->shape) * sizeof *weight;
  value->constant = hd__calloc((size_t)hd__value_stride(value), sizeof *weight);
  HD_TRY(HD_ALLOCATED(value->constant, ctx, "out of memory while building the graph"));
  memcpy(value->constant, weight, used);
  return HD_OK;
}

hd_status hd__graph_add_loss(hd_graph *graph, hd_ctx *ctx, int logits, const hd_loss *loss) {
  int out, weight = -1, written = logits;
  if (graph->values[written].order.rank == 3) /* the order of classes is the order in which PyTorch flattens */
    HD_TRY(hd__graph_add(&logits, graph, ctx,
                         &(hd_layer_spec){HD_OP_flatten, "logits", &written, 1, &(hd_attrs){.move = 1}}));
  const hd_shape scores = graph->values[logits].shape;
  hd_attrs attrs = loss->attrs;
  attrs.pointwise = reads_one_token(graph);
  if (scores.rank == 3 && loss->op == HD_OP_cross_entropy) /* a label for each place */
    graph->values[graph->label].shape = (hd_shape){1, {scores.dim[1] * scores.dim[2]}};
  if (loss->op != HD_OP_cross_entropy) {
    graph->values[graph->label].dtype = HD_F32;
    graph->values[graph->label].shape =
        loss->heads ? (hd_shape){1, {hd__heads_targets(loss->heads)}} : graph->values[logits].shape;
  }
  if (loss->weight)
    HD_TRY(add_weights(&weight, graph, ctx, loss->weight, &graph->values[logits].shape));
  HD_TRY(hd__graph_add(&out, graph, ctx,
                       &(hd_layer_spec){loss->op, "loss", (int[]){logits, graph->label, weight}, 3, &attrs}));
  if (loss->heads)
    graph->nodes[graph->node_count - 1].geom.weighted_sum = *loss->heads;
  graph->logits = logits;
  graph->loss = out;
  return HD_OK;
}

hd_op hd__head_op(const hd_loss_head *head) {
  static const hd_op of[] = {[HD_HEAD_CROSS_ENTROPY] = HD_OP_cross_entropy,
                             [HD_HEAD_MSE] = HD_OP_mse,
                             [HD_HEAD_L1] = HD_OP_l1,
                             [HD_HEAD_HUBER] = HD_OP_huber,
                             [HD_HEAD_BCE_WITH_LOGITS] = HD_OP_bce_with_logits};
  return of[head->loss];
}

int32_t hd__head_numbers(const hd_loss_head *head) { return head->loss == HD_HEAD_CROSS_ENTROPY ? 1 : head->count; }

int32_t hd__heads_targets(const hd_weighted_sum_geom *heads) {
  const hd_loss_head *last = &heads->head[heads->heads - 1];
  return last->target + hd__head_numbers(last);
}

const hd_node *hd__graph_loss_node(const hd_graph *graph) {
  const hd_node *node = &graph->nodes[graph->values[graph->loss].producer];
  return node->op == HD_OP_weigh ? &graph->nodes[graph->values[node->in[0]].producer] : node;
}

const hd_node *hd__graph_head(const hd_graph *graph) { return &graph->nodes[graph->values[graph->logits].producer]; }

void hd__graph_soften_labels(hd_graph *graph) {
  hd_node *node = &graph->nodes[graph->values[graph->loss].producer];
  graph->of_classes = true;
  if (node->op != HD_OP_cross_entropy)
    return;
  node->geom.cross_entropy.soft_labels = 1;
  graph->values[graph->label].dtype = HD_F32;
  graph->values[graph->label].shape = graph->values[graph->logits].shape;
}

void hd__graph_weigh_samples(hd_graph *graph) {
  hd_shape *shape = &graph->values[graph->label].shape;
  *shape = (hd_shape){1, {(int32_t)hd__shape_elems(shape) + 1}};
  graph->weighs = true;
}

hd_status hd__graph_smooth_labels(hd_graph *graph, hd_ctx *ctx, double smoothing) {
  hd_node *node = &graph->nodes[graph->values[graph->loss].producer];
  if (node->op != HD_OP_cross_entropy)
    return hd__fail(ctx, HD_E_USAGE,
                    "--label-smoothing expects a model with the loss cross_entropy, found %s; leave it out",
                    hd__op_info(node->op)->name);
  node->attrs.label_smoothing = node->geom.cross_entropy.label_smoothing = (float)smoothing;
  return HD_OK;
}
