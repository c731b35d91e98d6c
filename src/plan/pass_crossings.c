/* The pass that finds what passes from stage to stage: values in batch memory that other stages read than the one that
 * makes them, and the targets, which are fetched with the samples, in the first stage. */
#include "base/alloc.h"
#include "plan/passes.h"

static void note_read(hd_crossing *crossing, int stage) {
  crossing->first = stage < crossing->first ? stage : crossing->first;
  crossing->last = stage > crossing->last ? stage : crossing->last;
}

/* A value, and where it is made and read. */
static hd_crossing find(const hd_plan *plan, int value) {
  const hd_graph *graph = plan->graph;
  const int producer = graph->values[value].producer, from = producer < 0 ? 0 : plan->nodes[producer].stage;
  hd_crossing crossing = {.place = plan->place[value], .from = from, .first = from, .last = from};
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++)
      if (graph->nodes[i].in[k] == value)
        note_read(&crossing, plan->nodes[i].stage);
  return crossing;
}

hd_status hd__pass_crossings(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  HD_TRY(HD_NEW(plan->crossings, plan->graph->value_count, ctx, "out of memory while cutting stages"));
  for (int v = 0; v < plan->graph->value_count; v++) {
    const hd_crossing crossing = find(plan, v);
    const bool is_kept = crossing.place.where == HD_AT_BATCH || crossing.place.where == HD_AT_LABELS;
    if (is_kept && crossing.first != crossing.last)
      plan->crossings[plan->crossing_count++] = crossing;
  }
  return HD_OK;
}
