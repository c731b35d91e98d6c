/* The pass that gives every value a place.
 *
 * Values that share memory form a class: views, and outputs written in place over an input without later readers. A
 * class that a deferred gradient, a later segment or another stage reads goes to batch memory, the others to the
 * thread's arena. In both they are placed first-fit by lifetime: two classes of a stage share bytes of the arena
 * only if no node touches both, of batch memory, in which all threads are at different samples, only if no segment
 * does. Stages have arenas of their own. Everything is counted per sample. */
#include <string.h>

#include "base/alloc.h"
#include "op/op.h"
#include "plan/passes.h"

enum { ALIGN_BYTES = 64 };

/* The lifetime of a class, and its place. Deferred gradients read after all nodes, in a segment of their own. */
typedef struct life {
  int first, last;                 /* nodes: first writer (-1: before the first node), last reader */
  int first_segment, last_segment; /* and theirs */
  int stage;                       /* of the first writer */
  int64_t bytes;
  int64_t offset;
  bool batch, live;
} life;

typedef struct memory {
  hd_plan *plan;
  int *class_of; /* value -> class, named by a value index */
  life *lives;   /* per value; meaningful for class names */
  bool in_place, reuse, guard;
} memory;

static bool can_form(const hd_plan *plan, const hd_node *node) {
  return hd__op_info(node->op)->class == HD_CLASS_REDUCE && hd_form_for(plan->kernels, node->op, &node->geom);
}

/* All uses of a parameter have one way: the gradients of shared weights are deferred if all of them can be. */
bool hd__plan_defers(const hd_plan *plan, const hd_node *node) {
  const hd_graph *graph = plan->graph;
  if (!can_form(plan, node))
    return false;
  for (int k = 0; k < HD_MAX_OUT; k++) {
    const hd_value *gradient = node->out[k] < 0 ? NULL : &graph->values[node->out[k]];
    for (const hd_value *v = graph->values; gradient && v < graph->values + graph->value_count; v++)
      if (v->kind == HD_VALUE_PARAM_GRAD && v->param == gradient->param && v->producer >= 0 &&
          !can_form(plan, &graph->nodes[v->producer]))
        return false;
  }
  return true;
}

/* The segment in which a value is written: samples are fetched for the first. */
static int segment_of(const memory *m, int value) {
  int producer = m->plan->graph->values[value].producer;
  return producer < 0 ? 0 : m->plan->nodes[producer].segment;
}

static int stage_of(const memory *m, int value) {
  int producer = m->plan->graph->values[value].producer;
  return producer < 0 ? 0 : m->plan->nodes[producer].stage;
}

/* Nodes come in order. */
static void note_use(memory *m, int value, int node, int segment, int stage) {
  if (value < 0)
    return;
  life *l = &m->lives[value];
  l->last = l->last > node ? l->last : node;
  l->last_segment = l->last_segment > segment ? l->last_segment : segment;
  l->batch |= l->last_segment > l->first_segment || stage != l->stage;
}

static void note_reads(memory *m, int index) {
  const hd_plan *plan = m->plan;
  const hd_node *node = &plan->graph->nodes[index];
  const bool deferred = hd__plan_defers(plan, node);
  for (int k = 0; k < HD_MAX_IN; k++)
    note_use(m, node->in[k], deferred ? plan->graph->node_count : index,
             deferred ? plan->segments : plan->nodes[index].segment, plan->nodes[index].stage);
}

/* First and last use of every single value. */
static void find_lives(memory *m) {
  const hd_graph *graph = m->plan->graph;
  for (int v = 0; v < graph->value_count; v++) {
    const hd_value *value = &graph->values[v];
    bool rows = value->kind == HD_VALUE_ROWS || value->kind == HD_VALUE_INPUT;
    m->class_of[v] = v;
    bool made = value->producer >= 0 || v == graph->input; /* without a producer: between fused nodes */
    m->lives[v] = (life){.first = value->producer,
                         .last = value->producer,
                         .first_segment = segment_of(m, v),
                         .last_segment = segment_of(m, v),
                         .stage = stage_of(m, v),
                         .live = rows && made && v != graph->loss};
    m->lives[v].bytes =
        (hd__value_stride(value) * hd__dtype_bytes(value->dtype) + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  }
  for (int i = 0; i < graph->node_count; i++)
    note_reads(m, i);
  if (!m->plan->trains)
    note_use(m, graph->logits, graph->node_count, segment_of(m, graph->logits), stage_of(m, graph->logits));
  for (int v = 0; v < graph->value_count; v++) /* an argmax without readers is not stored; any other output must be */
    if (graph->values[v].dtype == HD_U8 && m->lives[v].last == m->lives[v].first)
      m->lives[v].live = false;
}

/* Puts out[0] of the node into the class of in[0]. */
static void join(memory *m, const hd_node *node) {
  int to = m->class_of[node->in[0]], from = node->out[0];
  life *a = &m->lives[to], *b = &m->lives[from];
  m->class_of[from] = to;
  b->live = false;
  a->last = a->last > b->last ? a->last : b->last;
  a->last_segment = a->last_segment > b->last_segment ? a->last_segment : b->last_segment;
  a->batch |= b->batch;
  a->bytes = a->bytes > b->bytes ? a->bytes : b->bytes;
}

static void find_classes(memory *m) {
  const hd_graph *graph = m->plan->graph;
  for (int i = 0; i < graph->node_count; i++) {
    const hd_node *node = &graph->nodes[i];
    if (node->view) {
      join(m, node);
      continue;
    }
    if (!m->in_place || !hd__op_works_in_place(node->op))
      continue;
    const life *x = &m->lives[m->class_of[node->in[0]]];
    bool twice = node->op == HD_OP_add && m->class_of[node->in[0]] == m->class_of[node->in[1]];
    if (x->last == i && x->first >= 0 && !twice)
      join(m, node);
  }
}

/* After all other places: its samples, at most the batch's, end at a page border, and a guard page for each sample
 * follows. */
static int64_t guarded_offset(const life *l, int64_t end) {
  return (end + l->bytes + HD_GUARD_BYTES - 1) / HD_GUARD_BYTES * HD_GUARD_BYTES - l->bytes;
}

/* Whether two classes may not share a byte. */
static bool lie_apart(const memory *m, const life *a, const life *b) {
  if (a->batch != b->batch)
    return false;
  if (!m->reuse)
    return a->batch || a->stage == b->stage;
  return a->batch ? a->first_segment <= b->last_segment && b->first_segment <= a->last_segment
                  : a->stage == b->stage && a->first <= b->last && b->first <= a->last;
}

/* The lowest offset where class v fits beside the classes that are already placed in its memory. */
static int64_t first_fit(const memory *m, const bool *placed, int v) {
  const life *mine = &m->lives[v];
  int64_t offset = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int o = 0; o < m->plan->graph->value_count; o++) {
      const life *other = &m->lives[o];
      if (placed[o] && lie_apart(m, mine, other) && offset < other->offset + other->bytes &&
          other->offset < offset + mine->bytes) {
        offset = other->offset + other->bytes;
        moved = true;
      }
    }
  }
  return offset;
}

static void place_classes(memory *m, bool *placed) {
  hd_plan *plan = m->plan;
  memset(placed, 0, (size_t)plan->graph->value_count * sizeof *placed);
  for (int v = 0; v < plan->graph->value_count; v++) {
    life *l = &m->lives[v];
    if (!l->live)
      continue;
    int64_t *all = l->batch ? &plan->size.batch_bytes : &plan->size.stage_arena_bytes[l->stage];
    l->offset = m->guard ? guarded_offset(l, *all) : first_fit(m, placed, v);
    placed[v] = true;
    const int64_t end = l->offset + l->bytes + (m->guard ? HD_GUARD_BYTES : 0);
    *all = *all > end ? *all : end;
  }
  for (int s = 0; s < plan->pipeline.stages.count; s++)
    if (plan->size.arena_bytes < plan->size.stage_arena_bytes[s])
      plan->size.arena_bytes = plan->size.stage_arena_bytes[s];
}

/* Sums over shards and parameters are placed by the pass of chunks. */
static hd_place place_of(const memory *m, int v) {
  static const hd_where of_kind[] = {
      [HD_VALUE_LABEL] = HD_AT_LABELS, [HD_VALUE_PARAM] = HD_AT_PARAM, [HD_VALUE_CONST] = HD_AT_CONST};
  const hd_graph *graph = m->plan->graph;
  const hd_value *value = &graph->values[v];
  const life *l = &m->lives[m->class_of[v]];
  hd_place place = {.where = v == graph->loss ? HD_AT_LOSSES : of_kind[value->kind],
                    .stride = hd__value_stride(value),
                    .row_bytes = hd__value_stride(value) * hd__dtype_bytes(value->dtype),
                    .elems = hd__shape_elems(&value->shape)};
  if (place.where == HD_AT_CONST) {
    place.offset = m->plan->size.const_elems;
    m->plan->size.const_elems += (place.stride + 15) / 16 * 16;
  } else if (place.where == HD_AT_NOWHERE && l->live) {
    place.where = l->batch ? HD_AT_BATCH : HD_AT_ARENA;
    place.offset = l->offset;
  }
  return place;
}

hd_status hd__pass_memory(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  size_t values = (size_t)plan->graph->value_count;
  memory m = {.plan = plan,
              .in_place = !(settings->omit & HD_OMIT_IN_PLACE),
              .reuse = !(settings->omit & HD_OMIT_REUSE),
              .guard = settings->guard};
  HD_OWNED int *class_of = m.class_of = hd__calloc(values, sizeof *m.class_of);
  HD_OWNED life *lives = m.lives = hd__calloc(values, sizeof *m.lives);
  HD_OWNED bool *placed = hd__calloc(values, sizeof *placed);
  plan->place = hd__calloc(values, sizeof *plan->place);
  HD_TRY(HD_ALLOCATED(class_of && lives && placed && plan->place, ctx, "out of memory while planning memory"));
  find_lives(&m);
  find_classes(&m);
  place_classes(&m, placed);
  for (size_t v = 0; v < values; v++)
    plan->place[v] = place_of(&m, (int)v);
  return HD_OK;
}
