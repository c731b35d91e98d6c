/* The memory of a complete plan; see check.h. */
#include "base/alloc.h"
#include "op/op.h"
#include "plan/check.h"
#include "plan/passes.h"

enum { NO_VALUE = -1, LINE_BYTES = 64 }; /* places begin and end at lines */

typedef struct walk {
  const hd_plan *plan;
  int *arena, *batch; /* per line, of each stage's arena: the value that was written there last */
  int *segment;       /* per line of batch memory: the segment in which it was last read or written */
  hd_finding *finding;
} walk;

static const char *name_of(const walk *w, int value) { return w->plan->graph->values[value].name; }

/* A view owns nothing: its bytes are those of the value it shows. */
static int shown_by(const hd_graph *graph, int value) {
  for (int i = graph->node_count - 1; i >= 0; i--)
    if (graph->nodes[i].view && graph->nodes[i].out[0] == value)
      value = graph->nodes[i].in[0];
  return value;
}

static int64_t slot_bytes(const hd_plan *plan, int value) {
  return plan->place[value].stride * hd__dtype_bytes(plan->graph->values[value].dtype);
}

static int64_t slot_lines(const hd_plan *plan, int value) { return slot_bytes(plan, value) / LINE_BYTES; }

static bool is_stored(const hd_place *place) { return place->where == HD_AT_ARENA || place->where == HD_AT_BATCH; }

static int64_t arena_lines(const hd_plan *plan) { return (plan->size.arena_bytes + LINE_BYTES - 1) / LINE_BYTES; }

static int stage_of(const walk *w, int value) {
  const int producer = w->plan->graph->values[value].producer;
  return producer < 0 ? 0 : w->plan->nodes[producer].stage;
}

static int *owners(const walk *w, int value) {
  const hd_place *place = &w->plan->place[value];
  const int64_t line = place->offset / LINE_BYTES;
  return place->where == HD_AT_ARENA ? w->arena + stage_of(w, value) * arena_lines(w->plan) + line : w->batch + line;
}

static bool lie_alike(const hd_plan *plan, int a, int b) {
  return a >= 0 && b >= 0 && plan->place[a].where == plan->place[b].where &&
         plan->place[a].offset == plan->place[b].offset && plan->place[a].row_bytes == plan->place[b].row_bytes;
}

static void note_segment(walk *w, int value, int segment) {
  const hd_place *place = &w->plan->place[value];
  const int64_t lines = place->where == HD_AT_BATCH ? slot_lines(w->plan, value) : 0;
  for (int64_t i = 0; i < lines; i++)
    w->segment[place->offset / LINE_BYTES + i] = segment;
}

/* In batch memory other threads are at other samples of the same segment: bytes that it has used are not overwritten,
 * except in place, where samples have the same layout. */
static void check_segment(walk *w, int value, const int *owner, int segment) {
  const hd_place *place = &w->plan->place[value];
  const int64_t lines = place->where == HD_AT_BATCH ? slot_lines(w->plan, value) : 0;
  const int *last = w->segment + place->offset / LINE_BYTES;
  for (int64_t i = 0; i < lines && !w->finding->found; i++)
    if (owner[i] != NO_VALUE && last[i] == segment && !lie_alike(w->plan, owner[i], value))
      hd__plan_fault(w->finding, "%s lies over %s, which its segment uses", name_of(w, value), name_of(w, owner[i]));
}

static void write_value(walk *w, int value, int segment) {
  if (value < 0 || !is_stored(&w->plan->place[value]))
    return;
  int *owner = owners(w, value);
  check_segment(w, value, owner, segment);
  for (int64_t i = 0, lines = slot_lines(w->plan, value); i < lines; i++)
    owner[i] = value;
  note_segment(w, value, segment);
}

static bool is_sum(const hd_value *value) {
  return value->kind == HD_VALUE_STATISTIC || value->kind == HD_VALUE_PARAM_GRAD;
}

static void read_value(walk *w, int value, const char *reader, int segment) {
  if (value < 0 || w->plan->graph->values[value].kind == HD_VALUE_PARAM ||
      w->plan->graph->values[value].kind == HD_VALUE_CONST || value == w->plan->graph->label)
    return;
  if (is_sum(&w->plan->graph->values[value])) {
    if (w->plan->place[value].where != HD_AT_DIRECT)
      hd__plan_fault(w->finding, "%s reads %s, which is never summed", reader, name_of(w, value));
    return;
  }
  if (!is_stored(&w->plan->place[value])) {
    hd__plan_fault(w->finding, "%s reads %s, which is stored nowhere", reader, name_of(w, value));
    return;
  }
  int wanted = shown_by(w->plan->graph, value);
  const int *owner = owners(w, value);
  for (int64_t i = 0, lines = slot_lines(w->plan, value); i < lines && !w->finding->found; i++)
    if (owner[i] != wanted)
      hd__plan_fault(w->finding, "%s reads %s, and finds %s in byte %lld", reader, name_of(w, value),
                     owner[i] == NO_VALUE ? "nothing" : name_of(w, owner[i]), (long long)i * LINE_BYTES);
  note_segment(w, value, segment);
}

static bool overlap(const hd_plan *plan, int a, int b) {
  if (a < 0 || b < 0 || !is_stored(&plan->place[a]) || plan->place[a].where != plan->place[b].where)
    return false;
  int64_t first = plan->place[a].offset, second = plan->place[b].offset;
  return first < second + slot_bytes(plan, b) && second < first + slot_bytes(plan, a);
}

static void check_apart(walk *w, const hd_node *node) {
  if (overlap(w->plan, node->out[0], node->out[1]))
    hd__plan_fault(w->finding, "%s writes its two outputs over each other", node->name);
  for (int o = 0; o < HD_MAX_OUT; o++)
    for (int i = 0; i < HD_MAX_IN; i++) {
      bool allowed = o == 0 && i == 0 && hd__op_works_in_place(node->op) &&
                     w->plan->place[node->out[0]].offset == w->plan->place[node->in[0]].offset;
      if (!allowed && overlap(w->plan, node->out[o], node->in[i]))
        hd__plan_fault(w->finding, "%s writes %s over its input %s", node->name, name_of(w, node->out[o]),
                       name_of(w, node->in[i]));
    }
}

static void check_call(walk *w, const hd_plan_call *call) {
  const hd_node *node = &w->plan->graph->nodes[call->node];
  const bool per_shard = hd__op_info(node->op)->class != HD_CLASS_ROWS ||
                         hd_kernels_for(w->plan->kernels, node->op, &node->geom)->per_shard[node->op];
  if (call->op != node->op || call->per_shard != per_shard)
    hd__plan_fault(w->finding, "the call of %s differs from its node", node->name);
  const int segment = w->plan->nodes[call->node].segment;
  if (call->stage != w->plan->nodes[call->node].stage)
    hd__plan_fault(w->finding, "the call of %s runs in another stage than its node", node->name);
  for (int i = 0; i < HD_MAX_IN; i++) {
    read_value(w, node->in[i], node->name, segment);
    if (node->in[i] >= 0 && w->plan->place[node->in[i]].where == HD_AT_ARENA && stage_of(w, node->in[i]) != call->stage)
      hd__plan_fault(w->finding, "%s reads %s in the arena of another stage", node->name, name_of(w, node->in[i]));
  }
  check_apart(w, node);
  for (int i = 0; i < HD_MAX_OUT; i++)
    write_value(w, node->out[i], segment);
}

/* Every node runs once, in order, except views and gradients that are formed later. */
static void check_order(walk *w) {
  int next = 0;
  for (int i = 0; i < w->plan->graph->node_count; i++) {
    const hd_node *node = &w->plan->graph->nodes[i];
    if (node->view || hd__plan_defers(w->plan, node))
      continue;
    if (next == w->plan->call_count || w->plan->calls[next++].node != i)
      hd__plan_fault(w->finding, "%s is not called in its turn", node->name);
  }
  if (next != w->plan->call_count)
    hd__plan_fault(w->finding, "there are %d calls for %d nodes that run", w->plan->call_count, next);
}

/* Values that are read after the last call. */
static void check_end(walk *w) {
  const hd_graph *graph = w->plan->graph;
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    if (!hd__plan_defers(w->plan, node))
      continue;
    for (int k = 0; k < 2; k++) {
      read_value(w, node->in[k], "the deferred gradient", w->plan->segments);
      if (w->plan->place[node->in[k]].where != HD_AT_BATCH)
        hd__plan_fault(w->finding, "a deferred gradient reads %s outside batch memory", name_of(w, node->in[k]));
    }
  }
  if (!w->plan->trains)
    read_value(w, graph->logits, "the evaluation", w->plan->segments);
}

static void check_place(walk *w, int value) {
  const hd_place *place = &w->plan->place[value];
  const hd_value *info = &w->plan->graph->values[value];
  if (!is_stored(place))
    return;
  int64_t room = place->where == HD_AT_ARENA ? w->plan->size.arena_bytes : w->plan->size.batch_bytes;
  if (place->offset < 0 || place->offset % 64 || slot_bytes(w->plan, value) % 64)
    hd__plan_fault(w->finding, "%s is not aligned to 64 bytes", info->name);
  if (place->stride < hd__shape_elems(&info->shape) || place->offset + slot_bytes(w->plan, value) > room)
    hd__plan_fault(w->finding, "%s does not fit where it lies", info->name);
  if (info->producer < 0 && value != w->plan->graph->input)
    hd__plan_fault(w->finding, "%s takes memory and is never written", info->name);
}

static int *no_owners(int64_t lines) {
  int *owner = hd__malloc((size_t)(lines + 1) * sizeof *owner);
  for (int64_t i = 0; owner && i < lines; i++)
    owner[i] = NO_VALUE;
  return owner;
}

static void walk_calls(walk *w) {
  write_value(w, w->plan->graph->input, 0);
  for (int i = 0; i < w->plan->call_count; i++)
    check_call(w, &w->plan->calls[i]);
  check_end(w);
}

void hd__check_memory(hd_finding *finding, const hd_plan *plan) {
  walk w = {.plan = plan, .finding = finding};
  for (int v = 0; v < plan->graph->value_count; v++)
    check_place(&w, v);
  check_order(&w);
  if (finding->found)
    return;
  const int64_t batch_lines = (plan->size.batch_bytes + LINE_BYTES - 1) / LINE_BYTES;
  w.arena = no_owners(arena_lines(plan) * plan->pipeline.stages.count);
  w.batch = no_owners(batch_lines);
  w.segment = no_owners(batch_lines);
  finding->no_memory = !w.arena || !w.batch || !w.segment;
  if (!finding->no_memory)
    walk_calls(&w);
  hd__free(w.arena);
  hd__free(w.batch);
  hd__free(w.segment);
}
