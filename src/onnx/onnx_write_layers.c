/* The form of each layer in an ONNX file: a table; and layers that are one node, or work on each element; see
 * onnx_writer.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "onnx/onnx_writer.h"

/* Whether the last window of a pool reaches beyond the padding. */
static bool reaches_beyond(const hd_geom *g) {
  const hd_window_geom *v = &g->window;
  return (g->ho - 1) * v->sh + v->kh > g->hi + 2 * v->ph || (g->wo - 1) * v->sw + v->kw > g->wi + 2 * v->pw;
}

/* What a pool reads with its padding as pixels, as far as its windows reach. */
static const char *padded(hd_onnx_writer *w, const hd_node *node) {
  const hd_geom *g = &node->geom;
  const hd_window_geom *v = &g->window;
  const int64_t below = (g->ho - 1) * v->sh + v->kh - g->hi - v->ph;
  const int64_t beside = (g->wo - 1) * v->sw + v->kw - g->wi - v->pw;
  const int64_t pads[] = {0, 0, v->ph, v->pw, 0, 0, below < v->ph ? below : v->ph, beside < v->pw ? beside : v->pw};
  return hd__onnx_step(w, "Pad", hd__onnx_in(w, node, 0), hd__onnx_write_numbers(w, pads, 8));
}

/* Programs differ in pools with ceil_mode: whether a window may begin in the padding, and how many pixels those have
 * that reach beyond it where padding counts. So it is written where a window of an axis does, and never with such
 * padding. */
static void write_pool(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const bool mean = node->op == HD_OP_avg_pool2d, ceils = reaches_beyond(g);
  const bool counts = mean && g->avg_pool2d.count_include_pad && (g->window.ph || g->window.pw);
  const char *x = ceils && counts ? padded(w, node) : hd__onnx_in(w, node, 0);
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_sides(&a, "kernel_shape", g->window.kh, g->window.kw, false);
  hd__onnx_set_sides(&a, "strides", g->window.sh, g->window.sw, false);
  if (!(ceils && counts))
    hd__onnx_set_sides(&a, "pads", g->window.ph, g->window.pw, true);
  if (mean)
    hd__onnx_set_int(&a, "count_include_pad", counts && !ceils);
  if (ceils)
    hd__onnx_set_int(&a, "ceil_mode", 1);
  hd__onnx_write_node(w, op, w->layer, w->out, &a, x, (char *)NULL);
}

static void write_window(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  if (w->places) {
    hd__onnx_write_pointwise(w, node);
    return;
  }
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_sides(&a, "kernel_shape", g->window.kh, g->window.kw, false);
  hd__onnx_set_sides(&a, "strides", g->window.sh, g->window.sw, false);
  hd__onnx_set_sides(&a, "pads", g->window.ph, g->window.pw, true);
  hd__onnx_set_sides(&a, "dilations", g->window.dilation[0], g->window.dilation[1], false);
  hd__onnx_set_int(&a, "group", g->conv.groups);
  const char *weight = hd__onnx_in(w, node, 1);
  if (weight && w->net->graph->values[node->in[1]].shape.rank == 2) /* of a linear layer over places */
    weight = hd__onnx_step_reshape(w, weight, (int64_t[]){g->co, g->ci, 1, 1}, 4);
  if (g->window.transposed)
    hd__onnx_set_sides(&a, "output_padding", g->conv_transpose2d.output_padding[0],
                       g->conv_transpose2d.output_padding[1], false);
  hd__onnx_write_node(w, op, w->layer, w->out, &a, hd__onnx_in(w, node, 0), weight, hd__onnx_in(w, node, 2),
                      (char *)NULL);
}

static void write_linear(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_int(&a, "transB", 1);
  hd__onnx_write_node(w, op, w->layer, w->out, &a, hd__onnx_in(w, node, 0), hd__onnx_in(w, node, 1),
                      hd__onnx_in(w, node, 2), (char *)NULL);
}

static void write_plain(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd_onnx_attributes a = {.count = 0};
  if (node->op == HD_OP_leaky_relu || node->op == HD_OP_elu)
    hd__onnx_set_float(&a, "alpha",
                       node->op == HD_OP_elu ? node->geom.elu.alpha : node->geom.leaky_relu.negative_slope);
  if (node->op == HD_OP_hardsigmoid)
    hd__onnx_set_float(&a, "alpha", (float)(1.0 / 6));
  if (node->op == HD_OP_flatten || node->op == HD_OP_softmax || node->op == HD_OP_log_softmax)
    hd__onnx_set_int(&a, "axis", hd__onnx_channel_axis(w, node));
  hd__onnx_finish(w, op, &a, hd__onnx_in(w, node, 0), hd__onnx_in(w, node, 1));
}

static void write_concat(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_int(&a, "axis", hd__onnx_channel_axis(w, node));
  hd__onnx_write_node(w, op, w->layer, w->out, &a, hd__onnx_in(w, node, 0), hd__onnx_in(w, node, 1),
                      hd__onnx_in(w, node, 2), hd__onnx_in(w, node, 3), hd__onnx_in(w, node, 4),
                      hd__onnx_in(w, node, 5), hd__onnx_in(w, node, 6), (char *)NULL);
}

static void write_scale(hd_onnx_writer *w, const hd_node *node, const char *op) {
  hd__onnx_finish(w, op, NULL, hd__onnx_in(w, node, 0), hd__onnx_write_number(w, node->geom.scale.factor));
}

static void write_swish(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const char *x = hd__onnx_in(w, node, 0);
  hd__onnx_finish(w, op, NULL, x, hd__onnx_step(w, "Sigmoid", x, NULL));
}

static void write_clip(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const bool is_relu6 = node->op == HD_OP_relu6;
  const char *min = hd__onnx_write_number(w, is_relu6 ? 0 : node->geom.clip.min);
  const char *max = hd__onnx_write_number(w, is_relu6 ? 6 : node->geom.clip.max);
  hd__onnx_write_node(w, op, w->layer, w->out, NULL, hd__onnx_in(w, node, 0), min, max, (char *)NULL);
}

/* Softplus(beta * x) / beta; with Where(beta * x > threshold, x, ...) if it jumps by more than rounding does. */
static void write_softplus(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_softplus_geom *s = &node->geom.softplus;
  const char *x = hd__onnx_in(w, node, 0), *beta = s->beta != 1 ? hd__onnx_write_number(w, s->beta) : NULL;
  const char *z = beta ? hd__onnx_step(w, "Mul", x, beta) : x;
  if (s->threshold >= 16) {
    if (beta)
      hd__onnx_finish(w, "Div", NULL, hd__onnx_step(w, op, z, NULL), beta);
    else
      hd__onnx_finish(w, op, NULL, z, NULL);
    return;
  }
  const char *above = hd__onnx_step(w, "Greater", z, hd__onnx_write_number(w, s->threshold)),
             *y = hd__onnx_step(w, op, z, NULL);
  hd__onnx_write_node(w, "Where", w->layer, w->out, NULL, above, x, beta ? hd__onnx_step(w, "Div", y, beta) : y,
                      (char *)NULL);
}

static void write_mish(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const char *x = hd__onnx_in(w, node, 0);
  hd__onnx_finish(w, op, NULL, x, hd__onnx_step(w, "Tanh", hd__onnx_step(w, "Softplus", x, NULL), NULL));
}

/* x / 2 * (1 + erf(x sqrt(1/2))), or tanh(sqrt(2/pi) (x + 0.044715 x^3)) in place of erf. */
static void write_gelu(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const char *x = hd__onnx_in(w, node, 0), *share;
  if (node->attrs.approximate) {
    const char *cubic = hd__onnx_step(w, "Mul", hd__onnx_step(w, "Mul", x, x), hd__onnx_write_number(w, 0.044715f));
    const char *inner = hd__onnx_step(w, "Mul", x, hd__onnx_write_number(w, 0.79788456f));
    share = hd__onnx_step(
        w, "Tanh", hd__onnx_step(w, "Mul", inner, hd__onnx_step(w, "Add", cubic, hd__onnx_write_number(w, 1))), NULL);
  } else {
    share = hd__onnx_step(w, "Erf", hd__onnx_step(w, "Mul", x, hd__onnx_write_number(w, 0.70710678f)), NULL);
  }
  hd__onnx_finish(w, op, NULL, hd__onnx_step(w, "Mul", x, hd__onnx_step(w, "Add", share, hd__onnx_write_number(w, 1))),
                  hd__onnx_write_number(w, 0.5f));
}

static void write_slice(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const int64_t axis = hd__onnx_channel_axis(w, node), start = node->geom.slice.start, end = start + node->geom.co;
  hd__onnx_write_node(w, op, w->layer, w->out, NULL, hd__onnx_in(w, node, 0), hd__onnx_write_numbers(w, &start, 1),
                      hd__onnx_write_numbers(w, &end, 1), hd__onnx_write_numbers(w, &axis, 1), (char *)NULL);
}

/* A view, its transposition, and a view of it. */
static void write_reshape(hd_onnx_writer *w, const hd_node *node, const char *op) {
  const hd_geom *g = &node->geom;
  const int64_t parts[] = {-1, g->reshape.swap[0], g->reshape.swap[1], g->reshape.inner}, perm[] = {0, 2, 1, 3};
  const int64_t shape[] = {-1, g->co, g->ho, g->wo};
  const char *x = hd__onnx_in(w, node, 0), *turned;
  hd_onnx_attributes a = {.count = 0};
  if (parts[1] > 1 && parts[2] > 1) {
    hd__onnx_set_ints(&a, "perm", perm, 4);
    x = hd__onnx_step(w, op, x, hd__onnx_write_numbers(w, parts, 4));
    turned = hd__onnx_new_name(w);
    hd__onnx_write_node(w, "Transpose", turned, turned, &a, x, (char *)NULL);
    x = turned;
  }
  hd__onnx_write_node(w, op, w->layer, w->out, NULL, x, hd__onnx_write_numbers(w, shape, 4), (char *)NULL);
}

/* The form of each operation: its node, or the last of its nodes. */
static const struct form {
  hd_op op;
  const char *node;
  void (*write)(hd_onnx_writer *w, const hd_node *node, const char *op);
} forms[] = {
    {HD_OP_conv2d, "Conv", write_window},
    {HD_OP_conv_transpose2d, "ConvTranspose", write_window},
    {HD_OP_max_pool2d, "MaxPool", write_pool},
    {HD_OP_avg_pool2d, "AveragePool", write_pool},
    {HD_OP_global_avg_pool2d, "GlobalAveragePool", write_plain},
    {HD_OP_linear, "Gemm", write_linear},
    {HD_OP_relu, "Relu", write_plain},
    {HD_OP_sigmoid, "Sigmoid", write_plain},
    {HD_OP_tanh, "Tanh", write_plain},
    {HD_OP_leaky_relu, "LeakyRelu", write_plain},
    {HD_OP_gelu, "Mul", write_gelu},
    {HD_OP_swish, "Mul", write_swish},
    {HD_OP_relu6, "Clip", write_clip},
    {HD_OP_hardswish, "HardSwish", write_plain},
    {HD_OP_hardsigmoid, "HardSigmoid", write_plain},
    {HD_OP_elu, "Elu", write_plain},
    {HD_OP_selu, "Selu", write_plain},
    {HD_OP_softplus, "Softplus", write_softplus},
    {HD_OP_mish, "Mul", write_mish},
    {HD_OP_clip, "Clip", write_clip},
    {HD_OP_prelu, "PRelu", write_plain},
    {HD_OP_scale, "Mul", write_scale},
    {HD_OP_dropout, "Identity", write_plain},
    {HD_OP_flatten, "Flatten", write_plain},
    {HD_OP_add, "Add", write_plain},
    {HD_OP_mul, "Mul", write_plain},
    {HD_OP_sub, "Sub", write_plain},
    {HD_OP_div, "Div", write_plain},
    {HD_OP_concat, "Concat", write_concat},
    {HD_OP_slice, "Slice", write_slice},
    {HD_OP_reshape, "Reshape", write_reshape},
    {HD_OP_upsample, "Resize", hd__onnx_write_upsample},
    {HD_OP_pad, "Pad", hd__onnx_write_pad},
    {HD_OP_mean, "ReduceMean", hd__onnx_write_line},
    {HD_OP_max, "ReduceMax", hd__onnx_write_line},
    {HD_OP_adaptive_avg_pool2d, "AveragePool", hd__onnx_write_adaptive},
    {HD_OP_adaptive_max_pool2d, "MaxPool", hd__onnx_write_adaptive},
    {HD_OP_instance_norm, "InstanceNormalization", hd__onnx_write_instance_norm},
    {HD_OP_layer_norm2d, "LayerNormalization", hd__onnx_write_layer_norm2d},
    {HD_OP_rms_norm, "Mul", hd__onnx_write_rms_norm},
    {HD_OP_dropout2d, "Identity", write_plain},
    {HD_OP_batch_norm, "BatchNormalization", hd__onnx_write_batch_norm},
    {HD_OP_layer_norm, "LayerNormalization", hd__onnx_write_layer_norm},
    {HD_OP_group_norm, "Add", hd__onnx_write_group_norm},
    {HD_OP_softmax, "Softmax", write_plain},
    {HD_OP_log_softmax, "LogSoftmax", write_plain},
    {HD_OP_embedding, "Gather", hd__onnx_write_embedding},
    {HD_OP_position, "Add", write_plain},
    {HD_OP_rotary, "Concat", hd__onnx_write_rotary},
    {HD_OP_attention, "Reshape", hd__onnx_write_attention},
    {HD_OP_lstm, "LSTM", hd__onnx_write_recurrent},
    {HD_OP_gru, "GRU", hd__onnx_write_recurrent},
};

static bool is_pointwise(const hd_geom *g) {
  return g->window.kh == 1 && g->window.kw == 1 && g->window.sh == 1 && g->window.sw == 1 && g->window.ph == 0 &&
         g->window.pw == 0 && g->conv.groups == 1;
}

/* Whether there is a form for values of batch x places x channels; or, without tokens, for images. */
static bool fits(const hd_onnx_writer *w, const hd_node *node) {
  const hd_op_rule *rule = hd__op_info(node->op)->rule;
  if (!w->places || w->net->graph->values[node->in[0]].shape.rank == 1)
    return rule->places != HD_PLACES_NUMBERED && rule->places != HD_PLACES_PAST && rule->places != HD_PLACES_WEIGHTED &&
           (node->op != HD_OP_embedding || w->places);
  return node->op == HD_OP_conv2d ? is_pointwise(&node->geom)
                                  : rule->elementwise || rule->places != HD_PLACES_ANY || hd__op_drops(node->op) ||
                                        node->op == HD_OP_concat || node->op == HD_OP_slice;
}

const hd_node *hd__onnx_joined_heads(const hd_graph *graph) {
  return hd__graph_loss_node(graph)->op == HD_OP_weighted_sum ? hd__graph_head(graph) : NULL;
}

static bool is_output(const hd_graph *graph, int value) {
  const hd_node *joined = hd__onnx_joined_heads(graph);
  bool is = !joined && value == graph->logits;
  for (int k = 0; k < HD_MAX_IN && joined; k++)
    is = is || value == joined->in[k];
  return is;
}

/* The name of a layer's output: the network's are called as the heads are, or "scores". */
static void name_output(hd_onnx_writer *w, const hd_node *node) {
  const hd_graph *graph = w->net->graph;
  const bool is_last = is_output(graph, node->out[0]), is_head = is_last && hd__onnx_joined_heads(graph);
  bool is_taken = !strcmp(node->name, w->value[graph->input]) || !strcmp(node->name, "pixels");
  for (int p = 0; p < graph->param_count; p++)
    is_taken = is_taken || !strcmp(node->name, graph->values[graph->params[p].value].name);
  char *out = w->value[node->out[0]];
  if (is_last && !is_head && !w->net->target_mean)
    strcpy(out, "scores");
  else
    snprintf(out, HD_ONNX_VALUE_BYTES, is_head && !is_taken ? "%s" : "%s/y", node->name);
}

hd_status hd__onnx_write_layer(hd_onnx_writer *w, const hd_node *node) {
  if (hd__onnx_is_for_gates(w->net->graph, node) || node == hd__onnx_joined_heads(w->net->graph))
    return HD_OK;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (forms[i].op == node->op && fits(w, node)) {
      char *out = w->value[node->out[0]];
      name_output(w, node);
      if (hd__op_drops(node->op) && !is_output(w->net->graph, node->out[0])) {
        memcpy(out, w->value[node->in[0]], HD_ONNX_VALUE_BYTES);
        return HD_OK;
      }
      w->layer = node->name;
      w->out = out;
      w->names = 0;
      forms[i].write(w, node, forms[i].node);
      return HD_OK;
    }
  return hd__fail(w->ctx, HD_E_UNSUPPORTED,
                  "layer '%s': expected an operation that heddle writes as ONNX, found %s; leave it out", node->name,
                  hd__op_info(node->op)->name);
}

#endif
