/* The graph after any pass; see check.h. */
#include <stdarg.h>

#include "plan/check.h"

void hd__plan_fault(hd_finding *finding, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (!finding->found)
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
  va_end(args);
  finding->found = true;
}

static bool is_value(const hd_graph *graph, int value) { return value >= 0 && value < graph->value_count; }

/* Values that nodes make; the others exist from the start. */
static bool is_made(hd_value_kind kind) {
  return kind == HD_VALUE_ROWS || kind == HD_VALUE_PARAM_GRAD || kind == HD_VALUE_STATISTIC;
}

static bool is_sum(hd_value_kind kind) { return kind == HD_VALUE_PARAM_GRAD || kind == HD_VALUE_STATISTIC; }

static void check_indices(hd_finding *f, const hd_graph *graph) {
  const int named[] = {graph->input, graph->label, graph->logits, graph->loss};
  for (size_t i = 0; i < sizeof named / sizeof *named; i++)
    if (!is_value(graph, named[i]))
      hd__plan_fault(f, "the graph names value %d of %d", named[i], graph->value_count);
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    for (int k = 0; k < HD_MAX_IN; k++)
      if (node->in[k] >= graph->value_count || node->in[k] < -1)
        hd__plan_fault(f, "%s reads value %d of %d", node->name, node->in[k], graph->value_count);
    for (int k = 0; k < HD_MAX_OUT; k++)
      if (node->out[k] >= graph->value_count || node->out[k] < -1)
        hd__plan_fault(f, "%s writes value %d of %d", node->name, node->out[k], graph->value_count);
  }
  for (int p = 0; p < graph->param_count; p++)
    if (!is_value(graph, graph->params[p].value) || graph->values[graph->params[p].value].param != p)
      hd__plan_fault(f, "parameter %d has the value of another", p);
}

static void check_producers(hd_finding *f, const hd_graph *graph) {
  for (int v = 0; v < graph->value_count; v++) {
    const hd_value *value = &graph->values[v];
    bool writes = false;
    if (value->producer < -1 || value->producer >= graph->node_count)
      hd__plan_fault(f, "%s is made by node %d of %d", value->name, value->producer, graph->node_count);
    else if (value->producer >= 0)
      for (int k = 0; k < HD_MAX_OUT; k++)
        writes |= graph->nodes[value->producer].out[k] == v;
    if (value->producer >= 0 && !writes)
      hd__plan_fault(f, "%s is not made by its node", value->name);
  }
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_OUT; k++)
      if (graph->nodes[i].out[k] >= 0 && graph->values[graph->nodes[i].out[k]].producer != i)
        hd__plan_fault(f, "%s writes %s, which another node makes", graph->nodes[i].name,
                       graph->values[graph->nodes[i].out[k]].name);
}

static void check_reads(hd_finding *f, const hd_graph *graph) {
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++) {
      const hd_value *value = graph->nodes[i].in[k] < 0 ? NULL : &graph->values[graph->nodes[i].in[k]];
      if (value && is_made(value->kind) && value->producer < 0)
        hd__plan_fault(f, "%s reads %s, which no node makes", graph->nodes[i].name, value->name);
      if (value && value->producer >= i)
        hd__plan_fault(f, "%s reads %s, which is made later", graph->nodes[i].name, value->name);
    }
  const hd_value *logits = &graph->values[graph->logits], *loss = &graph->values[graph->loss];
  if ((is_made(logits->kind) && logits->producer < 0) || loss->producer < 0)
    hd__plan_fault(f, "no node makes %s", loss->producer < 0 ? loss->name : logits->name);
}

/* Segments follow one another in the order of nodes; a node may read rows of its own or an earlier segment, sums only
 * of an earlier one. */
static void check_segments(hd_finding *f, const hd_plan *plan) {
  const hd_graph *graph = plan->graph;
  for (int i = 0; i < graph->node_count; i++) {
    const hd_plan_node *node = &plan->nodes[i];
    if (node->stage < 0 || node->stage >= plan->pipeline.stages.count)
      hd__plan_fault(f, "%s is in stage %d of %d", graph->nodes[i].name, node->stage, plan->pipeline.stages.count);
    if (plan->segments > 0 && (node->segment < 0 || node->segment >= plan->segments))
      hd__plan_fault(f, "%s is in segment %d of %d", graph->nodes[i].name, node->segment, plan->segments);
    if (i > 0 && node->segment < node[-1].segment)
      hd__plan_fault(f, "%s is in segment %d, behind segment %d", graph->nodes[i].name, node->segment,
                     node[-1].segment);
    for (int k = 0; k < HD_MAX_IN && plan->segments > 0; k++) {
      const int v = graph->nodes[i].in[k], producer = v < 0 ? -1 : graph->values[v].producer;
      if (producer >= 0 && is_sum(graph->values[v].kind) && plan->nodes[producer].segment == node->segment)
        hd__plan_fault(f, "%s reads %s before all shards are done", graph->nodes[i].name, graph->values[v].name);
    }
  }
}

void hd__check_graph(hd_finding *finding, const hd_plan *plan) {
  check_indices(finding, plan->graph);
  if (!finding->found)
    check_producers(finding, plan->graph);
  if (!finding->found)
    check_reads(finding, plan->graph);
  if (!finding->found && plan->nodes)
    check_segments(finding, plan);
}
