/* The parts of a complete plan that never share memory; see check.h. */
#include "op/op.h"
#include "plan/check.h"

static const char *name_of(const hd_plan *plan, int value) { return plan->graph->values[value].name; }

static bool is_sum(const hd_value *value) {
  return value->kind == HD_VALUE_STATISTIC || value->kind == HD_VALUE_PARAM_GRAD;
}

/* Ranges that follow one another with gaps below 16 elements (padding); returns where the next one may start. */
static int64_t follow(hd_finding *f, const char *what, int64_t at, int64_t offset, int64_t elems) {
  if (offset < at || offset % 16 || offset - at >= 16)
    hd__plan_fault(f, "%s starts at %lld, where %lld was the next free one", what, (long long)offset, (long long)at);
  return offset + elems;
}

/* Trained parameters come before the others; returns where the last one ends. */
static int64_t follow_params(hd_finding *f, const hd_plan *plan, bool trained, int64_t at) {
  const hd_graph *graph = plan->graph;
  for (int p = 0; p < graph->param_count; p++)
    if (trained == hd__param_ever_trains(&graph->params[p]))
      at = follow(f, name_of(plan, graph->params[p].value), at, plan->params[p].offset,
                  hd__param_elems(&graph->params[p]));
  return at;
}

static void check_chunks(hd_finding *f, const hd_plan *plan, int p) {
  const hd_plan_param *way = &plan->params[p];
  const hd_param *param = &plan->graph->params[p];
  int32_t row = 0;
  for (int c = way->first_chunk; c < way->first_chunk + way->chunks; c++) {
    const hd_chunk *chunk = &plan->chunks[c];
    if (chunk->param != p || chunk->j0 != row || chunk->j1 <= row || chunk->j1 - row > way->chunk_rows ||
        chunk->weight <= 0)
      hd__plan_fault(f, "chunk %d does not follow its neighbour", c);
    row = chunk->j1;
  }
  if (row != (param->frozen ? 0 : param->rows))
    hd__plan_fault(f, "the chunks of %s hold %d of %d rows", name_of(plan, param->value), row, param->rows);
}

/* A sum that a later segment reads is gathered after all shards, which is before that segment begins; a row
 * that a later segment reads stays in batch memory. */
static void check_segments(hd_finding *f, const hd_plan *plan) {
  const hd_graph *graph = plan->graph;
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++) {
      int value = graph->nodes[i].in[k];
      int producer = value < 0 ? -1 : graph->values[value].producer;
      int here = plan->nodes[i].segment, there = producer < 0 ? 0 : plan->nodes[producer].segment;
      if (value < 0 || here == there) {
        if (producer >= 0 && is_sum(&graph->values[value]))
          hd__plan_fault(f, "%s reads %s before all shards are done", graph->nodes[i].name, name_of(plan, value));
        continue;
      }
      if (is_sum(&graph->values[value]) && !plan->nodes[producer].gathered)
        hd__plan_fault(f, "%s reads %s, which is never gathered", graph->nodes[i].name, name_of(plan, value));
      if (plan->place[value].where == HD_AT_ARENA)
        hd__plan_fault(f, "%s reads %s of an earlier segment in the arena", graph->nodes[i].name, name_of(plan, value));
    }
}

/* Whether the weight of a call has a gradient that is formed from stored inputs. */
static bool is_deferred_call(const hd_plan *plan, int call) {
  const hd_node *node = &plan->graph->nodes[plan->calls[call].node];
  return plan->params[plan->graph->values[node->in[1]].param].deferred;
}

/* Phase after phase, the calls of all segments in order. */
static void check_phases(hd_finding *f, const hd_plan *plan) {
  int call = 0;
  for (int i = 0; i < plan->phase_count; i++) {
    const hd_phase *phase = &plan->phases[i];
    if (phase->kind != HD_PHASE_SHARDS && phase->kind != HD_PHASE_OUTPUTS && phase->kind != HD_PHASE_WHOLE)
      continue;
    if (phase->call0 != call || phase->call1 < call)
      hd__plan_fault(f, "phase %d does not follow its neighbour", i);
    if (phase->kind == HD_PHASE_WHOLE && phase->call1 != call + 1)
      hd__plan_fault(f, "phase %d gives one thread what is not one call", i);
    if (phase->kind == HD_PHASE_OUTPUTS && (phase->call1 != call + 1 || !is_deferred_call(plan, call)))
      hd__plan_fault(f, "phase %d shares out what is not one call with a deferred gradient", i);
    for (int c = phase->call0; c < phase->call1; c++)
      if (plan->nodes[plan->calls[c].node].segment != i)
        hd__plan_fault(f, "phase %d runs a call of another segment", i);
    call = phase->call1;
  }
  if (call != plan->call_count)
    hd__plan_fault(f, "the phases run %d of %d calls", call, plan->call_count);
}

static bool has_cut_edge(const hd_plan *plan, const hd_place *place, int from, int stage) {
  for (const hd_cut_edge *c = plan->pipeline.cut_edges; c < plan->pipeline.cut_edges + plan->pipeline.cut_edge_count;
       c++)
    if (c->place.where == place->where && c->place.offset == place->offset && c->from == from && c->first <= stage &&
        stage <= c->last)
      return true;
  return false;
}

/* Every value that a node of another stage reads has a cut edge. */
static void check_cut_edges(hd_finding *f, const hd_plan *plan) {
  const hd_graph *graph = plan->graph;
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++) {
      const int v = graph->nodes[i].in[k], producer = v < 0 ? -1 : graph->values[v].producer;
      const int from = producer < 0 ? 0 : plan->nodes[producer].stage, stage = plan->nodes[i].stage;
      const bool is_kept = v >= 0 && (plan->place[v].where == HD_AT_BATCH || plan->place[v].where == HD_AT_LABELS);
      if (is_kept && from != stage && !has_cut_edge(plan, &plan->place[v], from, stage))
        hd__plan_fault(f, "%s in stage %d reads %s of stage %d, which is not sent", graph->nodes[i].name, stage,
                       name_of(plan, v), from);
    }
}

static void check_gradient(hd_finding *f, const hd_plan *plan, int p, int64_t *direct, int64_t *grad) {
  const hd_plan_param *way = &plan->params[p];
  const hd_param *param = &plan->graph->params[p];
  if (param->running) { /* frozen ones are not looked at */
    if (param->statistic < 0 || way->uses > 0)
      hd__plan_fault(f, "%s has a gradient, or follows nothing", name_of(plan, param->value));
    return;
  }
  if (way->uses < 1)
    hd__plan_fault(f, "%s has no gradient", name_of(plan, param->value));
  for (int u = way->first_use; u < way->first_use + way->uses; u++) {
    const hd_plan_use *use = &plan->update.uses[u];
    int value = plan->graph->nodes[use->node].out[use->output];
    if (value < 0 || plan->graph->values[value].param != p)
      hd__plan_fault(f, "use %d of %s makes no gradient of it", u - way->first_use, name_of(plan, param->value));
    if (u > way->first_use && plan->graph->nodes[use->node].written >= plan->graph->nodes[use[-1].node].written)
      hd__plan_fault(f, "the uses of %s are not in reverse order of the nodes", name_of(plan, param->value));
    if (!way->deferred)
      *direct = follow(f, name_of(plan, value), *direct, use->direct, hd__param_elems(param));
    if (way->deferred != (plan->place[value].where == HD_AT_NOWHERE))
      hd__plan_fault(f, "the gradient of %s is deferred and stored, or neither", name_of(plan, param->value));
    *grad = u == way->first_use ? *grad : follow(f, name_of(plan, value), *grad, use->offset, hd__param_elems(param));
    if (u == way->first_use && use->offset != way->offset)
      hd__plan_fault(f, "the gradient of %s does not lie as the parameter does", name_of(plan, param->value));
  }
}

void hd__check_parts(hd_finding *f, const hd_plan *plan) {
  int64_t at = 0, direct = 0, packed = 0, grad = plan->size.trained_elems;
  int chunks = 0;
  at = follow_params(f, plan, true, 0);
  follow(f, "the end of what is trained", at, plan->size.trained_elems, 0);
  at = follow_params(f, plan, false, at);
  for (int p = 0; p < plan->param_count; p++) {
    if (plan->params[p].first_chunk != chunks)
      hd__plan_fault(f, "the chunks of parameter %d belong to another", p);
    chunks += plan->params[p].chunks;
    check_chunks(f, plan, p);
    if (plan->trains && plan->graph->params[p].frozen) {
      if (plan->params[p].trained || plan->params[p].uses > 0)
        hd__plan_fault(f, "%s is frozen and has a gradient", name_of(plan, plan->graph->params[p].value));
    } else if (plan->trains) {
      check_gradient(f, plan, p, &direct, &grad);
    }
  }
  for (int i = 0; i < plan->packed_count; i++)
    packed = follow(f, "a packed copy", packed, plan->packed[i].offset, plan->packed[i].elems);
  for (int v = 0; v < plan->graph->value_count; v++) {
    const hd_value *value = &plan->graph->values[v];
    if (value->kind == HD_VALUE_STATISTIC ||
        (value->kind == HD_VALUE_PARAM_GRAD && value->producer >= 0 && plan->graph->params[value->param].frozen))
      direct = follow(f, value->name, direct, plan->place[v].offset, hd__shape_elems(&value->shape));
  }
  check_segments(f, plan);
  check_cut_edges(f, plan);
  check_phases(f, plan);
  follow(f, "the end of the parameters", at, plan->size.param_elems, 0);
  follow(f, "the end of the gradients", grad, plan->size.grad_elems, 0);
  follow(f, "the end of the shard sums", direct, plan->size.direct_elems, 0);
  follow(f, "the end of the packed copies", packed, plan->size.packed_elems, 0);
  if (chunks != plan->chunk_count)
    hd__plan_fault(f, "the parameters have %d chunks, the plan %d", chunks, plan->chunk_count);
}
