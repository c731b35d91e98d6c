/* Writes a network as an ONNX file of opset 17: parameters, the input and its normalisation, layers, outputs, metadata;
 * see onnx_writer.h. */
#include "onnx/onnx.h"

#ifdef HD_HAVE_ONNX

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/text_buffer.h"
#include "base/version.h"
#include "onnx/onnx_writer.h"

enum { OPSET = 17, IR_VERSION = 8, HEAD_BYTES = 128, ENTRIES = 5 + HD_LOSS_HEADS };
static const int64_t MOST_BYTES = INT32_MAX; /* of a message */

/* A parameter as its operator takes it: of some layers, a number for each channel of an image. Recurrent layers write
 * theirs. */
static void write_param(hd_onnx_writer *w, const hd_param *param, const float *elems) {
  const hd_graph *graph = w->net->graph;
  const hd_value *value = &graph->values[param->value];
  int64_t dim[HD_MAX_DIMS];
  int reader;
  size_t rank = (size_t)value->shape.rank;
  for (size_t i = 0; i < rank; i++)
    dim[i] = value->shape.dim[i];
  hd__graph_reads(graph, param->value, &reader);
  const hd_op op = graph->nodes[reader].op;
  if (hd__op_info(op)->rule->gates > 0 || hd__onnx_is_for_gates(graph, &graph->nodes[reader]))
    return;
  if (!w->places && (op == HD_OP_group_norm || op == HD_OP_prelu || op == HD_OP_rms_norm))
    for (int i = 1; i < graph->values[graph->nodes[reader].in[0]].shape.rank; i++)
      dim[rank++] = 1;
  snprintf(w->value[param->value], HD_ONNX_VALUE_BYTES, "%s", value->name);
  hd__onnx_write_tensor(w, value->name, HD_ONNX_FLOAT, elems, dim, rank);
}

/* A value of the network: "batch" samples of a shape; the input, of a type, or the output. */
static void write_value(hd_onnx_writer *w, const char *name, const hd_shape *shape, int input_type) {
  HdOnnx__Graph graph = HD_ONNX__GRAPH__INIT;
  HdOnnx__Value value = HD_ONNX__VALUE__INIT, *list = &value;
  HdOnnx__Type type = HD_ONNX__TYPE__INIT;
  HdOnnx__TensorType tensor = HD_ONNX__TENSOR_TYPE__INIT;
  HdOnnx__Shape dims = HD_ONNX__SHAPE__INIT;
  HdOnnx__Dimension dim[HD_MAX_DIMS + 1], *dim_list[HD_MAX_DIMS + 1];
  for (int i = 0; i <= shape->rank; i++) {
    dim_list[i] = &dim[i];
    hd_onnx__dimension__init(&dim[i]);
    dim[i].has_dim_value = i > 0;
    dim[i].dim_value = i > 0 ? shape->dim[i - 1] : 0;
    dim[i].dim_param = i > 0 ? NULL : "batch";
  }
  dims.dim = dim_list;
  dims.n_dim = 1 + (size_t)shape->rank;
  tensor.has_elem_type = 1;
  tensor.elem_type = input_type ? input_type : HD_ONNX_FLOAT;
  tensor.shape = &dims;
  type.tensor_type = &tensor;
  value.name = (char *)name;
  value.type = &type;
  if (input_type) {
    graph.input = &list;
    graph.n_input = 1;
  } else {
    graph.output = &list;
    graph.n_output = 1;
  }
  hd__onnx_pack(w->to, &graph.base);
}

static const char *cast(hd_onnx_writer *w, int type, const char *x) {
  const char *name = hd__onnx_new_name(w);
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_int(&a, "to", type);
  return hd__onnx_write_node(w, "Cast", name, name, &a, x, (char *)NULL);
}

/* Rows, normalised by columns: (x - mean) / std in double. */
static void write_row_input(hd_onnx_writer *w, const hd_shape *shape) {
  const int64_t dim[] = {shape->dim[0], shape->rank > 1 ? shape->dim[1] : 1, shape->rank > 2 ? shape->dim[2] : 1};
  const size_t rank = (size_t)shape->rank;
  hd__onnx_write_tensor(w, "pixels/mean", HD_ONNX_DOUBLE, w->net->mean, dim, rank);
  hd__onnx_write_tensor(w, "pixels/std", HD_ONNX_DOUBLE, w->net->std, dim, rank);
  const char *centred = hd__onnx_step(w, "Sub", cast(w, HD_ONNX_DOUBLE, "pixels"), "pixels/mean");
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_int(&a, "to", HD_ONNX_FLOAT);
  hd__onnx_finish(w, "Cast", &a, hd__onnx_step(w, "Div", centred, "pixels/std"), NULL);
}

static void write_input(hd_onnx_writer *w) {
  const hd_graph *graph = w->net->graph;
  const hd_shape *shape = &graph->values[graph->input].shape;
  const int64_t dim[] = {hd__shape_image(shape).dim[0], 1, 1};
  const size_t rank = (size_t)shape->rank;
  if (w->places) {
    const hd_shape places = {1, {shape->dim[shape->rank - 1]}};
    write_value(w, strcpy(w->value[graph->input], "tokens"), &places, HD_ONNX_INT64);
    return;
  }
  w->layer = "/pixels"; /* no layer's name has a slash */
  w->out = strcpy(w->value[graph->input], "pixels/normalised");
  write_value(w, "pixels", shape, HD_ONNX_FLOAT);
  if (w->net->mean) {
    write_row_input(w, shape);
    return;
  }
  hd__onnx_write_tensor(w, "pixels/scale", HD_ONNX_FLOAT, w->net->scale, dim, rank);
  hd__onnx_write_tensor(w, "pixels/shift", HD_ONNX_FLOAT, w->net->shift, dim, rank);
  hd__onnx_finish(w, "Add", NULL, hd__onnx_step(w, "Mul", "pixels", "pixels/scale"), "pixels/shift");
}

/* Scores become numbers on the scale of the targets. */
static void write_unscaling(hd_onnx_writer *w) {
  const hd_graph *graph = w->net->graph;
  const int64_t dim[] = {hd__shape_elems(&graph->values[graph->logits].shape)};
  const char *scaled = w->value[graph->logits];
  w->layer = "/scores";
  w->out = "scores";
  w->names = 0;
  hd__onnx_write_tensor(w, "scores/mean", HD_ONNX_DOUBLE, w->net->target_mean, dim, 1);
  hd__onnx_write_tensor(w, "scores/std", HD_ONNX_DOUBLE, w->net->target_std, dim, 1);
  const char *spread = hd__onnx_step(w, "Mul", cast(w, HD_ONNX_DOUBLE, scaled), "scores/std");
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_int(&a, "to", HD_ONNX_FLOAT);
  hd__onnx_finish(w, "Cast", &a, hd__onnx_step(w, "Add", spread, "scores/mean"), NULL);
}

/* Whether the input is tokens, which one layer makes channels of places of. */
static bool reads_tokens(const hd_graph *graph) {
  int reader;
  const hd_shape *shape = &graph->values[graph->input].shape;
  return hd__graph_reads(graph, graph->input, &reader) == 1 && graph->nodes[reader].op == HD_OP_embedding &&
         hd__shape_elems(shape) == shape->dim[shape->rank - 1];
}

/* Scores for each place, or one after the other; or those of each head. */
static void write_scores(hd_onnx_writer *w) {
  const hd_node *joined = hd__onnx_joined_heads(w->net->graph);
  for (int k = 0; k < HD_MAX_IN && joined && joined->in[k] >= 0; k++)
    write_value(w, w->value[joined->in[k]], &w->net->graph->values[joined->in[k]].shape, 0);
  if (joined)
    return;
  const hd_shape *shape = &w->net->graph->values[w->net->graph->logits].shape;
  const hd_shape places = {2, {shape->dim[2], shape->dim[0]}};
  write_value(w, "scores", w->places && shape->rank == 3 ? &places : shape, 0);
}

static hd_status write_graph(hd_onnx_writer *w) {
  const hd_graph *graph = w->net->graph;
  w->places = reads_tokens(graph);
  HdOnnx__Graph head = HD_ONNX__GRAPH__INIT;
  head.name = (char *)w->net->name;
  hd__onnx_pack(w->to, &head.base);
  for (int p = 0; p < graph->param_count; p++)
    write_param(w, &graph->params[p], w->net->param[p]);
  write_input(w);
  for (int i = 0; i < graph->node_count; i++)
    if (!hd__op_info(graph->nodes[i].op)->rule->loss)
      HD_TRY(hd__onnx_write_layer(w, &graph->nodes[i]));
  if (w->net->target_mean)
    write_unscaling(w);
  write_scores(w);
  return HD_OK;
}

/* An entry of the file's metadata. */
typedef struct entry {
  const char *key, *value; /* NULL: there is none */
} entry;

/* The losses of heads, as model files state them: their weights and settings to the last bit. */
static void describe_losses(entry *out, char text[HD_LOSS_HEADS][2][HEAD_BYTES], const hd_graph *graph) {
  const hd_weighted_sum_geom *sum = &hd__graph_loss_node(graph)->geom.weighted_sum;
  for (int k = 0; hd__onnx_joined_heads(graph) && k < sum->heads; k++) {
    const hd_loss_head *h = &sum->head[k];
    const bool is_mean = h->loss != HD_HEAD_CROSS_ENTROPY;
    char weight[HD_NUMBER_BYTES], setting[HD_NUMBER_BYTES];
    hd__format_double(weight, (double)h->share * (is_mean ? h->count : 1));
    hd__format_float(setting, h->setting);
    hd_line line = {.text = text[k][1], .bytes = HEAD_BYTES};
    hd__line_add(&line, "{op: %s, loss_weight: %s", hd__op_info(hd__head_op(h))->name, weight);
    if (h->loss == HD_HEAD_CROSS_ENTROPY || h->loss == HD_HEAD_HUBER)
      hd__line_add(&line, ", %s: %s", is_mean ? "delta" : "label_smoothing", setting);
    hd__line_add(&line, "}");
    snprintf(text[k][0], HEAD_BYTES, HD_ONNX_HEAD_LOSS, k);
    out[k] = (entry){text[k][0], text[k][1]};
  }
}

/* The fields of the model, then its graph: a key and a length before the fields. */
static void write_model(FILE *to, const hd_onnx_network *net, const char *graph, size_t length) {
  HdOnnx__Model model = HD_ONNX__MODEL__INIT;
  HdOnnx__OperatorSet opset = HD_ONNX__OPERATOR_SET__INIT, *opsets = &opset;
  entry all[ENTRIES] = {{"heddle.loss", hd__op_info(hd__graph_loss_node(net->graph)->op)->name},
                        {"class_names", net->class_names},
                        {"features", net->features},
                        {"transforms", net->transforms},
                        {HD_ONNX_ELEMENTS, net->elements}};
  char losses[HD_LOSS_HEADS][2][HEAD_BYTES];
  describe_losses(all + ENTRIES - HD_LOSS_HEADS, losses, net->graph);
  HdOnnx__Entry item[ENTRIES], *entries[ENTRIES];
  for (int i = 0; i < ENTRIES; i++) {
    if (!all[i].value)
      continue;
    entries[model.n_metadata_props] = &item[i];
    hd_onnx__entry__init(&item[i]);
    item[i].key = (char *)all[i].key;
    item[i].value = (char *)all[i].value;
    model.n_metadata_props++;
  }
  opset.domain = "";
  opset.has_version = model.has_ir_version = 1;
  opset.version = OPSET;
  model.ir_version = IR_VERSION;
  model.producer_name = "heddle";
  model.producer_version = (char *)hd__version();
  model.opset_import = &opsets;
  model.metadata_props = entries;
  model.n_opset_import = 1;
  hd__onnx_pack(to, &model.base);
  fputc(7 << 3 | 2, to);
  size_t rest = length;
  for (; rest > 0x7f; rest >>= 7)
    fputc((int)(rest & 0x7f) | 0x80, to);
  fputc((int)rest, to);
  fwrite(graph, 1, length, to);
}

static size_t length_of(const char *text) { return text ? strlen(text) : 0; }

hd_status hd__onnx_write(FILE *to, hd_ctx *ctx, const hd_onnx_network *network) {
  char *graph = NULL;
  size_t length = 0;
  hd_onnx_writer w = {.to = open_memstream(&graph, &length), .ctx = ctx, .net = network};
  HD_OWNED char(*value)[HD_ONNX_VALUE_BYTES] = w.value = hd__calloc((size_t)network->graph->value_count, sizeof *value);
  const bool ready = w.to && value;
  hd_status status = ready ? write_graph(&w) : HD_E_NOMEM;
  bool whole = ready && !ferror(w.to) && !w.failed;
  whole = w.to && fclose(w.to) == 0 && whole;
  if (!whole)
    status = hd__fail(ctx, HD_E_NOMEM, "out of memory for an ONNX file");
  else if (status == HD_OK && (int64_t)(length + length_of(network->class_names) + length_of(network->features) +
                                        length_of(network->transforms)) > MOST_BYTES - 1024)
    status = hd__fail(ctx, HD_E_UNSUPPORTED,
                      "expected at most 2 GiB of weights for an ONNX file, found %zu bytes; export "
                      "to C, or use model.safetensors",
                      length);
  if (status == HD_OK)
    write_model(to, network, graph, length);
  free(graph);
  return status;
}

#endif
