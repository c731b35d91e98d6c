/* The pass that computes cheap values a second time, for gradients, instead of keeping them.
 *
 * A value that a later segment reads is in batch memory, for all samples of the batch. If elementwise operations and
 * batch_norm compute it from a value that is there anyway, the later segment gets copies of their nodes, and the value
 * stays in the arena: same kernels, same bits, less memory to hold, write and read.
 *
 *     forward     conv1 | norm gelu conv2 | ...
 *     backward    ... | norm' gelu' conv2_dw conv2_dx gelu_dx norm_dw | norm_dx ...
 *
 * The output of conv1 is in batch memory, since norm_dw and norm_dx read it. The outputs of norm and gelu are not: the
 * copies norm' and gelu' make them again for conv2_dw and gelu_dx.
 *
 * A copy reads what the copied node read in the graph that the pass was given, or this segment's copies of that. The
 * node itself may by then read copies, which belong to an earlier segment.
 *
 * Values that deferred gradients read stay in batch memory: those are formed after all segments. */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "op/op.h"
#include "plan/passes.h"

/* A value of the graph that the pass was given. */
typedef struct original {
  bool dispensable;  /* later segments read it, and compute it again */
  bool kept;         /* later segments read it in batch memory, though its node is cheap */
  int in[HD_MAX_IN]; /* the inputs of its producer */
  int until;         /* the last segment that can have it */
  int stage;         /* of the cheap nodes that compute it; NONE: several */
  int depth;         /* of the cheap nodes that compute it from batch memory; 0: none do */
  int copy;          /* the copy of the current segment, or NONE */
} original;

typedef struct copies {
  hd_plan *plan;
  hd_ctx *ctx;
  int segment;
  original *values;
  int count;
} copies;

/* A value that more nodes in a row compute is kept: each segment of the chain would compute all of it again. */
enum { NONE = -1, MAX_DEPTH = 8 };

static bool is_cheap(const hd_node *node) {
  const hd_op_info *info = hd__op_info(node->op);
  return node->op == HD_OP_batch_norm ||
         (info->role == HD_ROLE_FORWARD && info->rule->elementwise && !node->view && node->out[1] < 0);
}

static const hd_node *producer_of(const hd_graph *graph, int value) {
  const int producer = graph->values[value].producer;
  return producer < 0 ? NULL : &graph->nodes[producer];
}

static bool reads(const hd_node *node, int value) {
  for (int k = 0; k < HD_MAX_IN; k++)
    if (node->in[k] == value)
      return true;
  return false;
}

/* The last segment that reads the value, or NONE. */
static int last_reader(const hd_plan *plan, int value) {
  int last = NONE;
  for (int i = 0; i < plan->graph->node_count; i++)
    if (plan->nodes[i].segment > last && reads(&plan->graph->nodes[i], value))
      last = plan->nodes[i].segment;
  return last;
}

/* Whether a segment can have the value: it is in batch memory, because something reads it there or later, or cheap
 * nodes of the same stage compute it from such values. */
static bool can_have(const original *value, int segment, int stage) {
  return segment <= value->until && (value->depth == 0 || value->stage == stage);
}

/* Whether later segments read the value, and all of them can have it without batch memory. */
static bool is_dispensable(const original *values, const hd_plan *plan, int value) {
  const hd_graph *graph = plan->graph;
  const hd_node *producer = producer_of(graph, value);
  bool later = false;
  if (value == graph->logits || hd__graph_is_gradient(graph, graph->values[value].producer))
    return false;
  const hd_plan_node *made = &plan->nodes[producer - graph->nodes];
  for (int i = 0; i < graph->node_count; i++) {
    const hd_plan_node *node = &plan->nodes[i];
    if (!reads(&graph->nodes[i], value))
      continue;
    if (hd__plan_defers(plan, &graph->nodes[i]) || node->by_outputs || node->whole || graph->nodes[i].view ||
        (node->segment > made->segment && !can_have(&values[value], node->segment, node->stage)))
      return false;
    later |= node->segment > made->segment;
  }
  return later;
}

/* Fills in a value whose inputs are filled in. */
static void trace_back(original *values, const hd_plan *plan, int value) {
  const hd_graph *graph = plan->graph;
  const hd_node *producer = producer_of(graph, value);
  const hd_value_kind kind = graph->values[value].kind;
  original *of = &values[value];
  *of = (original){.until = INT_MAX, .stage = producer ? plan->nodes[producer - graph->nodes].stage : NONE};
  if (producer)
    memcpy(of->in, producer->in, sizeof of->in);
  if (kind != HD_VALUE_ROWS && kind != HD_VALUE_INPUT)
    return;
  if (!producer || !is_cheap(producer)) {
    of->until = last_reader(plan, value);
    return;
  }
  of->depth = 1;
  for (int k = 0; k < HD_MAX_IN; k++) {
    const original *from = of->in[k] < 0 ? NULL : &values[of->in[k]];
    if (!from)
      continue;
    of->until = from->until < of->until ? from->until : of->until;
    if (from->depth > 0 && from->stage != of->stage)
      of->stage = NONE;
    if (!from->kept && from->depth >= of->depth)
      of->depth = from->depth + 1;
  }
  of->dispensable = of->depth <= MAX_DEPTH && is_dispensable(values, plan, value);
  of->kept = !of->dispensable && last_reader(plan, value) > plan->nodes[producer - graph->nodes].segment;
}

/* Inserts a node like `like` at `index`, into the segment and stage of the node there. */
static hd_status insert(copies *c, int index, const hd_node *like) {
  hd_plan *plan = c->plan;
  hd_graph *graph = plan->graph;
  const hd_node from = *like;
  const hd_value value = graph->values[from.out[0]];
  hd_node *node;
  hd_plan_node *nodes = hd__realloc(plan->nodes, (size_t)(graph->node_count + 1) * sizeof *nodes);
  HD_TRY(HD_ALLOCATED(nodes, c->ctx, "out of memory while computing values again"));
  plan->nodes = nodes;
  memmove(nodes + index + 1, nodes + index, (size_t)(graph->node_count - index) * sizeof *nodes);
  nodes[index] = (hd_plan_node){.segment = nodes[index].segment, .stage = nodes[index].stage};
  HD_TRY(hd__graph_insert_node(&node, graph, c->ctx, index, from.op, &from));
  node->geom = from.geom;
  node->attrs = from.attrs;
  node->again = true;
  HD_TRY(hd__graph_output(graph, c->ctx, node, 0, "again", &(hd_value_type){HD_VALUE_ROWS, value.dtype, value.shape}));
  graph->values[node->out[0]].order = value.order;
  graph->values[node->out[0]].producer = index;
  return HD_OK;
}

/* Makes the segment's copy of a value before the node *index, whose index grows. */
static hd_status copy(copies *c, int value, int *index) {
  hd_graph *graph = c->plan->graph;
  original *of = &c->values[value];
  int in[HD_MAX_IN];
  if (of->copy != NONE)
    return HD_OK;
  memcpy(in, of->in, sizeof in);
  for (int k = 0; k < HD_MAX_IN; k++) {
    const hd_node *made = in[k] < 0 ? NULL : producer_of(graph, in[k]);
    if (!made || graph->values[in[k]].kind != HD_VALUE_ROWS || !is_cheap(made) ||
        (!c->values[in[k]].dispensable && last_reader(c->plan, in[k]) >= c->segment))
      continue;
    HD_TRY(copy(c, in[k], index));
    in[k] = c->values[in[k]].copy;
  }
  HD_TRY(insert(c, *index, producer_of(graph, value)));
  memcpy(graph->nodes[*index].in, in, sizeof in);
  of->copy = graph->nodes[(*index)++].out[0];
  return HD_OK;
}

/* Replaces the inputs of a segment's nodes by copies. */
static hd_status rewrite(copies *c) {
  hd_plan *plan = c->plan;
  for (int v = 0; v < c->count; v++)
    c->values[v].copy = NONE;
  for (int i = 0; i < plan->graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN && plan->nodes[i].segment == c->segment; k++) {
      const int value = plan->graph->nodes[i].in[k];
      if (value < 0 || value >= c->count || !c->values[value].dispensable ||
          plan->nodes[plan->graph->values[value].producer].segment == c->segment)
        continue;
      HD_TRY(copy(c, value, &i));
      plan->graph->nodes[i].in[k] = c->values[value].copy;
    }
  return HD_OK;
}

hd_status hd__pass_recompute(hd_plan *plan, hd_ctx *ctx) {
  const int count = plan->graph->value_count;
  HD_OWNED original *values = hd__calloc((size_t)count, sizeof *values);
  HD_TRY(HD_ALLOCATED(values, ctx, "out of memory while computing values again"));
  for (int v = 0; v < count; v++)
    if (plan->graph->values[v].producer < 0)
      trace_back(values, plan, v);
  for (int i = 0; i < plan->graph->node_count; i++)
    for (int k = 0; k < HD_MAX_OUT; k++)
      if (plan->graph->nodes[i].out[k] >= 0)
        trace_back(values, plan, plan->graph->nodes[i].out[k]);
  for (int s = 1; s < plan->segments; s++)
    HD_TRY(rewrite(&(copies){.plan = plan, .ctx = ctx, .segment = s, .values = values, .count = count}));
  return HD_OK;
}
