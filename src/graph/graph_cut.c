/* Cutting a graph in two: see graph_cut.h. */
#include "graph/graph_cut.h"

#include "base/alloc.h"
#include "op/op.h"

/* Whether an input of a node is the same in every step, for the same sample. */
static bool is_fixed(const hd_graph *graph, const bool *fixed, int value) {
  const hd_value *v = &graph->values[value];
  switch (v->kind) {
  case HD_VALUE_PARAM: return graph->params[v->param].frozen;
  case HD_VALUE_INPUT:
  case HD_VALUE_CONST: return true;
  case HD_VALUE_ROWS: return fixed[value];
  default: return false;
  }
}

static bool is_fixed_node(const hd_graph *graph, const bool *fixed, const hd_node *node) {
  bool all = !hd__op_drops(node->op) && node->op != HD_OP_custom && node->geom.attention.dropout == 0;
  for (int k = 0; k < HD_MAX_IN && all; k++)
    all = node->in[k] < 0 || is_fixed(graph, fixed, node->in[k]);
  return all;
}

static bool has_params(const hd_graph *graph, const hd_node *node) {
  return node->in[1] >= 0 && graph->values[node->in[1]].kind == HD_VALUE_PARAM;
}

/* Whether nodes behind `last` read nothing from before but its output. */
static bool passes_alone(const hd_graph *graph, int last) {
  for (int i = last + 1; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++) {
      const int value = graph->nodes[i].in[k];
      const hd_value *v = value < 0 ? NULL : &graph->values[value];
      if (v && value != graph->nodes[last].out[0] &&
          (v->kind == HD_VALUE_INPUT || (v->kind == HD_VALUE_ROWS && v->producer <= last)))
        return false;
    }
  return true;
}

int hd__graph_cut(const hd_graph *graph) {
  HD_OWNED bool *fixed = hd__calloc((size_t)graph->value_count, sizeof *fixed);
  bool any = false;
  int cut = -1;
  for (int i = 0; fixed && i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    const int y = node->out[0];
    if (!is_fixed_node(graph, fixed, node))
      break;
    fixed[y] = true;
    any |= has_params(graph, node);
    if (any && y != graph->logits && y != graph->loss && graph->values[y].order.rank == 0 && passes_alone(graph, i))
      cut = i;
  }
  return cut;
}

hd_status hd__graph_keep_front(hd_graph *graph, hd_ctx *ctx, int last) {
  hd_node *loss;
  while (graph->node_count > last + 1)
    hd__graph_remove_node(graph, graph->node_count - 1);
  graph->logits = graph->nodes[last].out[0];
  graph->weighs = false;
  hd_value *label = &graph->values[graph->label];
  label->dtype = HD_I32;
  label->shape = (hd_shape){.rank = 0};
  HD_TRY(hd__graph_new_node(&loss, graph, ctx, HD_OP_cross_entropy, "loss", graph->written_count));
  loss->geom = hd__geom_of_shape(&(hd_shape){1, {(int32_t)hd__shape_elems(&graph->values[graph->logits].shape)}});
  loss->in[0] = graph->logits;
  loss->in[1] = graph->label;
  HD_TRY(hd__graph_output(graph, ctx, loss, 0, NULL, &(hd_value_type){HD_VALUE_ROWS, HD_F32, {.rank = 0}}));
  graph->loss = loss->out[0];
  graph->values[graph->loss].producer = graph->node_count - 1;
  return HD_OK;
}

void hd__graph_keep_rest(hd_graph *graph, int last) {
  graph->input = graph->nodes[last].out[0];
  graph->values[graph->input].kind = HD_VALUE_INPUT;
  for (int i = last; i >= 0; i--)
    hd__graph_remove_node(graph, 0);
}
