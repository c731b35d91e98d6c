/* Recurrent layers as nodes LSTM and GRU of ONNX, which compute the gates' input part, too; see onnx_writer.h. */
#ifdef HD_HAVE_ONNX

#include <string.h>

#include "base/alloc.h"
#include "onnx/onnx_gates.h"
#include "onnx/onnx_writer.h"

bool hd__onnx_is_for_gates(const hd_graph *graph, const hd_node *node) {
  int reader;
  return hd__graph_reads(graph, node->out[0], &reader) == 1 && hd__op_info(graph->nodes[reader].op)->rule->gates > 0;
}

/* Whether a value is read by another layer than a recurrent one, which has it in another order. */
static bool is_read_by_places(const hd_graph *graph, int value) {
  bool is_read = value == graph->logits;
  for (int i = 0; i < graph->node_count && !is_read; i++)
    for (int k = 0; k < HD_MAX_IN; k++)
      is_read = is_read || (graph->nodes[i].in[k] == value && !hd__onnx_is_for_gates(graph, &graph->nodes[i]));
  return is_read;
}

/* Copies the rows of each gate to where ONNX has them. */
static void order_gates(float *to, const hd_onnx_writer *w, int value, int gates, size_t each) {
  const hd_graph *graph = w->net->graph;
  int p = 0;
  while (graph->params[p].value != value)
    p++;
  for (int k = 0; k < gates; k++)
    memcpy(to + (size_t)k * each, w->net->param[p] + (size_t)hd__onnx_gate(gates, k) * each, each * sizeof *to);
}

/* The parameters of a row of values, each of `gates` gates, in one tensor; its first dimension is of directions. */
static const char *put_gates(hd_onnx_writer *w, const char *name, const int *value, int values, int gates) {
  const hd_shape *shape = &w->net->graph->values[value[0]].shape;
  const size_t elems = (size_t)hd__shape_elems(shape);
  const int64_t dim[] = {1, (int64_t)shape->dim[0] * values, shape->rank > 1 ? shape->dim[1] : 1};
  HD_OWNED float *all = hd__malloc((size_t)values * elems * sizeof *all);
  w->failed |= !all;
  for (int i = 0; i < values && all; i++)
    order_gates(all + (size_t)i * elems, w, value[i], gates, elems / (size_t)gates);
  if (all)
    hd__onnx_write_tensor(w, name, HD_ONNX_FLOAT, all, dim, shape->rank > 1 ? 3 : 2);
  return name;
}

/* What a recurrent layer computed, as steps x batch x channels. */
static const char *steps_of(char name[HD_ONNX_VALUE_BYTES + 8], const hd_onnx_writer *w, int value) {
  snprintf(name, HD_ONNX_VALUE_BYTES + 8, "%s/steps", w->net->graph->nodes[w->net->graph->values[value].producer].name);
  return name;
}

/* Another layer's output as steps x batch x channels; an image has one row. */
static const char *to_steps(hd_onnx_writer *w, int value) {
  static const int64_t row = 2, of_signal[] = {2, 0, 1}, of_places[] = {1, 0, 2};
  const char *x = w->value[value];
  return w->places ? hd__onnx_step_transpose(w, x, of_places, 3)
                   : hd__onnx_step_transpose(w, hd__onnx_step(w, "Squeeze", x, hd__onnx_write_numbers(w, &row, 1)),
                                             of_signal, 3);
}

void hd__onnx_write_recurrent(hd_onnx_writer *w, const hd_node *node, const char *op) {
  static const int64_t direction = 1, of_places[] = {1, 0, 2}, of_signal[] = {1, 2, 0}, row = 2;
  const hd_graph *graph = w->net->graph;
  const hd_node *input_part = &graph->nodes[graph->values[node->in[0]].producer];
  const int x = input_part->in[0], producer = graph->values[x].producer, gates = hd__op_info(node->op)->rule->gates;
  char before[HD_ONNX_VALUE_BYTES + 8], after[HD_ONNX_VALUE_BYTES + 8];
  const bool chained = producer >= 0 && hd__op_info(graph->nodes[producer].op)->rule->gates > 0;
  const char *in = chained ? steps_of(before, w, x) : to_steps(w, x), *y = hd__onnx_new_name(w);
  const char *weight = put_gates(w, graph->values[input_part->in[1]].name, &input_part->in[1], 1, gates);
  const char *state_weight = put_gates(w, graph->values[node->in[1]].name, &node->in[1], 1, gates), *bias = NULL;
  if (node->in[2] >= 0)
    bias = put_gates(w, hd__onnx_new_name(w), (const int[]){input_part->in[2], node->in[2]}, 2, gates);
  hd_onnx_attributes a = {.count = 0};
  hd__onnx_set_int(&a, "hidden_size", node->geom.co);
  if (node->op == HD_OP_gru)
    hd__onnx_set_int(&a, "linear_before_reset", 1);
  hd__onnx_write_node(w, op, w->layer, y, &a, in, weight, state_weight, bias, (char *)NULL);
  steps_of(after, w, node->out[0]);
  hd__onnx_write_node(w, "Squeeze", after, after, NULL, y, hd__onnx_write_numbers(w, &direction, 1), (char *)NULL);
  if (!is_read_by_places(graph, node->out[0]))
    return;
  hd_onnx_attributes back = {.count = 0};
  hd__onnx_set_ints(&back, "perm", w->places ? of_places : of_signal, 3);
  if (w->places) {
    hd__onnx_write_node(w, "Transpose", hd__onnx_new_name(w), w->out, &back, after, (char *)NULL);
    return;
  }
  const char *signal = hd__onnx_new_name(w);
  hd__onnx_write_node(w, "Transpose", signal, signal, &back, after, (char *)NULL);
  hd__onnx_write_node(w, "Unsqueeze", hd__onnx_new_name(w), w->out, NULL, signal, hd__onnx_write_numbers(w, &row, 1),
                      (char *)NULL);
}

#endif
