/* The pass that finds the cut edges: values in batch memory that are read by another stage than the one that makes
 * them, and the targets, which the first stage fetches with the samples. */
#include "base/alloc.h"
#include "plan/passes.h"

static void note_read(hd_cut_edge *edge, int stage) {
  edge->first = stage < edge->first ? stage : edge->first;
  edge->last = stage > edge->last ? stage : edge->last;
}

/* A value, and where it is made and read. */
static hd_cut_edge find(const hd_plan *plan, int value) {
  const hd_graph *graph = plan->graph;
  const int producer = graph->values[value].producer, from = producer < 0 ? 0 : plan->nodes[producer].stage;
  hd_cut_edge edge = {.place = plan->place[value], .from = from, .first = from, .last = from};
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++)
      if (graph->nodes[i].in[k] == value)
        note_read(&edge, plan->nodes[i].stage);
  return edge;
}

hd_status hd__pass_cut_edges(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  HD_TRY(HD_NEW(plan->pipeline.cut_edges, plan->graph->value_count, ctx, "out of memory while cutting stages"));
  for (int v = 0; v < plan->graph->value_count; v++) {
    const hd_cut_edge edge = find(plan, v);
    const bool is_kept = edge.place.where == HD_AT_BATCH || edge.place.where == HD_AT_LABELS;
    if (is_kept && edge.first != edge.last)
      plan->pipeline.cut_edges[plan->pipeline.cut_edge_count++] = edge;
  }
  return HD_OK;
}
