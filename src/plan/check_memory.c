/* See plan_memory.h. */
#include "plan/plan_memory.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "op/op.h"

enum { NO_VALUE = -1 };

typedef struct walk {
  const hd_plan *plan;
  int *arena, *batch; /* per byte, of each stage's arena: the value that was written there last */
  int *segment;       /* per byte of batch memory: the segment in which it was last read or written */
  char *text;
  size_t bytes;
  bool wrong;
} walk;

__attribute__((format(printf, 2, 3))) static void say(walk *w, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (!w->wrong)
    vsnprintf(w->text, w->bytes, fmt, args);
  va_end(args);
  w->wrong = true;
}

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

static bool is_stored(const hd_place *place) { return place->where == HD_AT_ARENA || place->where == HD_AT_BATCH; }

static int stage_of(const walk *w, int value) {
  const int producer = w->plan->graph->values[value].producer;
  return producer < 0 ? 0 : w->plan->nodes[producer].stage;
}

static int *owners(const walk *w, int value) {
  const hd_place *place = &w->plan->place[value];
  return (place->where == HD_AT_ARENA ? w->arena + stage_of(w, value) * w->plan->arena_bytes : w->batch) +
         place->offset;
}

static bool lie_alike(const hd_plan *plan, int a, int b) {
  return a >= 0 && b >= 0 && plan->place[a].where == plan->place[b].where &&
         plan->place[a].offset == plan->place[b].offset && plan->place[a].row_bytes == plan->place[b].row_bytes;
}

static void note_segment(walk *w, int value, int segment) {
  const hd_place *place = &w->plan->place[value];
  for (int64_t i = 0; place->where == HD_AT_BATCH && i < slot_bytes(w->plan, value); i++)
    w->segment[place->offset + i] = segment;
}

/* In batch memory other threads are at other samples of the same segment: what it has used is not written over, except
 * in place, where samples lie alike. */
static void check_segment(walk *w, int value, const int *owner, int segment) {
  const hd_place *place = &w->plan->place[value];
  for (int64_t i = 0; place->where == HD_AT_BATCH && i < slot_bytes(w->plan, value) && !w->wrong; i++)
    if (owner[i] != NO_VALUE && w->segment[place->offset + i] == segment && !lie_alike(w->plan, owner[i], value))
      say(w, "%s lies over %s, which its segment uses", name_of(w, value), name_of(w, owner[i]));
}

static void write_value(walk *w, int value, int segment) {
  if (value < 0 || !is_stored(&w->plan->place[value]))
    return;
  int *owner = owners(w, value);
  check_segment(w, value, owner, segment);
  for (int64_t i = 0; i < slot_bytes(w->plan, value); i++)
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
      say(w, "%s reads %s, which is never summed", reader, name_of(w, value));
    return;
  }
  if (!is_stored(&w->plan->place[value])) {
    say(w, "%s reads %s, which is stored nowhere", reader, name_of(w, value));
    return;
  }
  int wanted = shown_by(w->plan->graph, value);
  const int *owner = owners(w, value);
  for (int64_t i = 0; i < slot_bytes(w->plan, value) && !w->wrong; i++)
    if (owner[i] != wanted)
      say(w, "%s reads %s, and finds %s in byte %lld", reader, name_of(w, value),
          owner[i] == NO_VALUE ? "nothing" : name_of(w, owner[i]), (long long)i);
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
    say(w, "%s writes its two outputs over each other", node->name);
  for (int o = 0; o < HD_MAX_OUT; o++)
    for (int i = 0; i < HD_MAX_IN; i++) {
      bool allowed = o == 0 && i == 0 && hd__op_works_in_place(node->op) &&
                     w->plan->place[node->out[0]].offset == w->plan->place[node->in[0]].offset;
      if (!allowed && overlap(w->plan, node->out[o], node->in[i]))
        say(w, "%s writes %s over its input %s", node->name, name_of(w, node->out[o]), name_of(w, node->in[i]));
    }
}

static void check_call(walk *w, const hd_plan_call *call) {
  const hd_node *node = &w->plan->graph->nodes[call->node];
  if (call->op != node->op || call->per_shard != (hd__op_info(node->op)->class != HD_CLASS_ROWS))
    say(w, "the call of %s differs from its node", node->name);
  const int segment = w->plan->nodes[call->node].segment;
  if (call->stage != w->plan->nodes[call->node].stage)
    say(w, "the call of %s runs in another stage than its node", node->name);
  for (int i = 0; i < HD_MAX_IN; i++) {
    read_value(w, node->in[i], node->name, segment);
    if (node->in[i] >= 0 && w->plan->place[node->in[i]].where == HD_AT_ARENA && stage_of(w, node->in[i]) != call->stage)
      say(w, "%s reads %s in the arena of another stage", node->name, name_of(w, node->in[i]));
  }
  check_apart(w, node);
  for (int i = 0; i < HD_MAX_OUT; i++)
    write_value(w, node->out[i], segment);
}

/* Every node runs once, in order, but for views and for gradients that are formed later. */
static void check_order(walk *w) {
  int next = 0;
  for (int i = 0; i < w->plan->graph->node_count; i++) {
    const hd_node *node = &w->plan->graph->nodes[i];
    bool formed = hd__op_info(node->op)->class == HD_CLASS_REDUCE && w->plan->kernels->form[node->op];
    if (node->view || formed)
      continue;
    if (next == w->plan->call_count || w->plan->calls[next++].node != i)
      say(w, "%s is not called in its turn", node->name);
  }
  if (next != w->plan->call_count)
    say(w, "there are %d calls for %d nodes that run", w->plan->call_count, next);
}

/* What is read when all calls are done. */
static void check_end(walk *w) {
  const hd_graph *graph = w->plan->graph;
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    if (hd__op_info(node->op)->class != HD_CLASS_REDUCE || !w->plan->kernels->form[node->op])
      continue;
    for (int k = 0; k < 2; k++) {
      read_value(w, node->in[k], "the deferred gradient", w->plan->segments);
      if (w->plan->place[node->in[k]].where != HD_AT_BATCH)
        say(w, "a deferred gradient reads %s outside batch memory", name_of(w, node->in[k]));
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
  int64_t room = place->where == HD_AT_ARENA ? w->plan->arena_bytes : w->plan->batch_bytes;
  if (place->offset < 0 || place->offset % 64 || slot_bytes(w->plan, value) % 64)
    say(w, "%s is not aligned to 64 bytes", info->name);
  if (place->stride < hd__shape_elems(&info->shape) || place->offset + slot_bytes(w->plan, value) > room)
    say(w, "%s does not fit where it lies", info->name);
  if (info->producer < 0 && value != w->plan->graph->input)
    say(w, "%s takes memory and is never written", info->name);
}

static int *no_owners(int64_t bytes) {
  int *owner = malloc((size_t)(bytes + 1) * sizeof *owner);
  if (!owner)
    abort();
  for (int64_t i = 0; i < bytes; i++)
    owner[i] = NO_VALUE;
  return owner;
}

const char *plan_memory_fault(char *text, size_t bytes, const hd_plan *plan) {
  walk w = {.plan = plan, .text = text, .bytes = bytes};
  for (int v = 0; v < plan->graph->value_count; v++)
    check_place(&w, v);
  check_order(&w);
  if (w.wrong)
    return text;
  w.arena = no_owners(plan->arena_bytes * plan->stages.count);
  w.batch = no_owners(plan->batch_bytes);
  w.segment = no_owners(plan->batch_bytes);
  write_value(&w, plan->graph->input, 0);
  for (int i = 0; i < plan->call_count; i++)
    check_call(&w, &plan->calls[i]);
  check_end(&w);
  free(w.arena);
  free(w.batch);
  free(w.segment);
  return w.wrong ? text : NULL;
}

/* Ranges that follow one another with gaps below 16 elements, as padding leaves them; returns where the next one may
 * start. */
static int64_t follow(walk *w, const char *what, int64_t at, int64_t offset, int64_t elems) {
  if (offset < at || offset % 16 || offset - at >= 16)
    say(w, "%s starts at %lld, where %lld was the next free one", what, (long long)offset, (long long)at);
  return offset + elems;
}

/* What training updates lies before the rest; returns where the last one ends. */
static int64_t follow_params(walk *w, bool trained, int64_t at) {
  const hd_graph *graph = w->plan->graph;
  for (int p = 0; p < graph->param_count; p++)
    if (trained == (!graph->params[p].frozen && !graph->params[p].running))
      at = follow(w, name_of(w, graph->params[p].value), at, w->plan->params[p].offset,
                  hd__param_elems(&graph->params[p]));
  return at;
}

static void check_chunks(walk *w, int p) {
  const hd_plan_param *way = &w->plan->params[p];
  const hd_param *param = &w->plan->graph->params[p];
  int32_t row = 0;
  for (int c = way->first_chunk; c < way->first_chunk + way->chunks; c++) {
    const hd_chunk *chunk = &w->plan->chunks[c];
    if (chunk->param != p || chunk->j0 != row || chunk->j1 <= row || chunk->j1 - row > way->chunk_rows ||
        chunk->weight <= 0)
      say(w, "chunk %d does not follow its neighbour", c);
    row = chunk->j1;
  }
  if (row != (param->frozen ? 0 : param->rows))
    say(w, "the chunks of %s hold %d of %d rows", name_of(w, param->value), row, param->rows);
}

/* A sum that a later segment reads is gathered after all shards, which is before that segment begins; a row
 * that a later segment reads stays in batch memory. */
static void check_segments(walk *w) {
  const hd_graph *graph = w->plan->graph;
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++) {
      int value = graph->nodes[i].in[k];
      int producer = value < 0 ? -1 : graph->values[value].producer;
      int here = w->plan->nodes[i].segment, there = producer < 0 ? 0 : w->plan->nodes[producer].segment;
      if (value < 0 || here == there) {
        if (producer >= 0 && is_sum(&graph->values[value]))
          say(w, "%s reads %s before all shards are done", graph->nodes[i].name, name_of(w, value));
        continue;
      }
      if (is_sum(&graph->values[value]) && !w->plan->nodes[producer].gathered)
        say(w, "%s reads %s, which is never gathered", graph->nodes[i].name, name_of(w, value));
      if (w->plan->place[value].where == HD_AT_ARENA)
        say(w, "%s reads %s of an earlier segment in the arena", graph->nodes[i].name, name_of(w, value));
    }
}

/* Whether the weight of a call has a gradient that is formed from stored inputs. */
static bool is_deferred_call(const hd_plan *plan, int call) {
  const hd_node *node = &plan->graph->nodes[plan->calls[call].node];
  return plan->params[plan->graph->values[node->in[1]].param].deferred;
}

/* Phase after phase, the calls of all segments in order. */
static void check_phases(walk *w) {
  int call = 0;
  for (int i = 0; i < w->plan->phase_count; i++) {
    const hd_phase *phase = &w->plan->phases[i];
    if (phase->kind != HD_PHASE_SHARDS && phase->kind != HD_PHASE_OUTPUTS)
      continue;
    if (phase->call0 != call || phase->call1 < call)
      say(w, "phase %d does not follow its neighbour", i);
    if (phase->kind == HD_PHASE_OUTPUTS && (phase->call1 != call + 1 || !is_deferred_call(w->plan, call)))
      say(w, "phase %d shares out what is not one call with a deferred gradient", i);
    for (int c = phase->call0; c < phase->call1; c++)
      if (w->plan->nodes[w->plan->calls[c].node].segment != i)
        say(w, "phase %d runs a call of another segment", i);
    call = phase->call1;
  }
  if (call != w->plan->call_count)
    say(w, "the phases run %d of %d calls", call, w->plan->call_count);
}

static void check_gradient(walk *w, int p, int64_t *direct, int64_t *grad) {
  const hd_plan_param *way = &w->plan->params[p];
  const hd_param *param = &w->plan->graph->params[p];
  if (param->running) {
    if (param->statistic < 0 || way->uses > 0)
      say(w, "%s has a gradient, or follows nothing", name_of(w, param->value));
    return;
  }
  if (way->uses < 1)
    say(w, "%s has no gradient", name_of(w, param->value));
  for (int u = way->first_use; u < way->first_use + way->uses; u++) {
    const hd_plan_use *use = &w->plan->uses[u];
    int value = w->plan->graph->nodes[use->node].out[use->output];
    if (value < 0 || w->plan->graph->values[value].param != p)
      say(w, "use %d of %s makes no gradient of it", u - way->first_use, name_of(w, param->value));
    if (u > way->first_use && w->plan->graph->nodes[use->node].written >= w->plan->graph->nodes[use[-1].node].written)
      say(w, "the uses of %s are not in reverse order of the nodes", name_of(w, param->value));
    if (!way->deferred)
      *direct = follow(w, name_of(w, value), *direct, use->direct, hd__param_elems(param));
    if (way->deferred != (w->plan->place[value].where == HD_AT_NOWHERE))
      say(w, "the gradient of %s is deferred and stored, or neither", name_of(w, param->value));
    *grad = u == way->first_use ? *grad : follow(w, name_of(w, value), *grad, use->offset, hd__param_elems(param));
    if (u == way->first_use && use->offset != way->offset)
      say(w, "the gradient of %s does not lie as the parameter does", name_of(w, param->value));
  }
}

const char *plan_parts_fault(char *text, size_t bytes, const hd_plan *plan) {
  walk w = {.plan = plan, .text = text, .bytes = bytes};
  int64_t at = 0, direct = 0, packed = 0, grad = plan->trained_elems;
  int chunks = 0;
  at = follow_params(&w, true, 0);
  follow(&w, "the end of what is trained", at, plan->trained_elems, 0);
  at = follow_params(&w, false, at);
  for (int p = 0; p < plan->param_count; p++) {
    if (plan->params[p].first_chunk != chunks)
      say(&w, "the chunks of parameter %d belong to another", p);
    chunks += plan->params[p].chunks;
    check_chunks(&w, p);
    if (plan->trains && plan->graph->params[p].frozen) {
      if (plan->params[p].trained || plan->params[p].uses > 0)
        say(&w, "%s is frozen and has a gradient", name_of(&w, plan->graph->params[p].value));
    } else if (plan->trains) {
      check_gradient(&w, p, &direct, &grad);
    }
  }
  for (int i = 0; i < plan->packed_count; i++)
    packed = follow(&w, "a packed copy", packed, plan->packed[i].offset, plan->packed[i].elems);
  for (int v = 0; v < plan->graph->value_count; v++) {
    const hd_value *value = &plan->graph->values[v];
    if (value->kind == HD_VALUE_STATISTIC ||
        (value->kind == HD_VALUE_PARAM_GRAD && value->producer >= 0 && plan->graph->params[value->param].frozen))
      direct = follow(&w, value->name, direct, plan->place[v].offset, hd__shape_elems(&value->shape));
  }
  check_segments(&w);
  check_phases(&w);
  follow(&w, "the end of the parameters", at, plan->param_elems, 0);
  follow(&w, "the end of the gradients", grad, plan->grad_elems, 0);
  follow(&w, "the end of the shard sums", direct, plan->direct_elems, 0);
  follow(&w, "the end of the packed copies", packed, plan->packed_elems, 0);
  if (chunks != plan->chunk_count)
    say(&w, "the parameters have %d chunks, the plan %d", chunks, plan->chunk_count);
  return w.wrong ? text : NULL;
}
