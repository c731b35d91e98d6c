/* Graphs in words. */
#include "graph/graph.h"
#include "op/op.h"

bool hd__graph_is_gradient(const hd_graph *graph, int node) { return node > graph->values[graph->loss].producer; }

const char *hd__graph_direction(const hd_graph *graph, int node) {
  const bool reduces = hd__op_info(graph->nodes[node].op)->class == HD_CLASS_REDUCE;
  if (!hd__graph_is_gradient(graph, node))
    return "forward";
  return graph->nodes[node].again ? "again" : reduces ? "dw" : "dx";
}

static void print_values(const hd_graph *graph, FILE *to, const int *list, int count) {
  const char *comma = "";
  for (int i = 0; i < count; i++) {
    if (list[i] < 0)
      continue;
    char text[HD_SHAPE_TEXT_BYTES];
    const hd_value *value = &graph->values[list[i]];
    fprintf(to, "%s%s[%s]", comma, value->name, hd__shape_text(text, sizeof text, &value->shape));
    comma = ", ";
  }
}

void hd__graph_print(const hd_graph *graph, FILE *to) {
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    const hd_geom *g = &node->geom;
    fprintf(to, "%-3d %-17s ", node->written, hd__op_info(node->op)->name);
    print_values(graph, to, node->out, HD_MAX_OUT);
    fprintf(to, " <- ");
    print_values(graph, to, node->in, HD_MAX_IN);
    if (g->conv.pool > 1)
      fprintf(to, " pool %d", g->conv.pool);
    if (g->relu)
      fprintf(to, " relu");
    fprintf(to, "\n");
  }
}
