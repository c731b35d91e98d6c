/* The pass that cuts a network into stages: neighbouring layers, forward and backward, that run on threads of their
 * own.
 *
 *     layers     conv1  relu1  conv2 | fc1  relu2  fc2  loss          2 stages, cut before fc1
 *     calls      F F F               | F F F F B B B     | B B B      forward 0, forward and backward 1, backward 0
 *
 * A stage begins with a layer as written. A gradient belongs to its layer's stage; a sum of gradients of several
 * readers is computed where the last of them is. So the calls of a step pass through the stages forwards, then
 * backwards, and a stage is entered at most twice. The cuts are given in the settings, or chosen so that the most
 * expensive stage costs as little as possible. */
#include <float.h>

#include "base/alloc.h"
#include "op/op.h"
#include "plan/passes.h"

static const char NO_MEMORY[] = "out of memory while cutting stages";

/* Besides its products a node writes its outputs: an element costs as much as this many operations. */
enum { OPERATIONS_PER_OUTPUT = 24 };

int hd__plan_stage_of(const hd_plan *plan, int written) {
  int stage = plan->pipeline.stages.count - 1;
  while (stage > 0 && plan->pipeline.stages.first[stage] > written)
    stage--;
  return stage;
}

static int forward_nodes(const hd_graph *graph) {
  int count = 0;
  while (count < graph->node_count && !hd__graph_is_gradient(graph, count))
    count++;
  return count;
}

static bool has_params(const hd_graph *graph, const hd_node *node) {
  for (int p = 0; p < graph->param_count; p++)
    if (graph->params[p].written == node->written && hd__param_trains(&graph->params[p]))
      return true;
  return false;
}

/* Whether a layer as written begins here: some are several nodes. */
static bool begins(const hd_graph *graph, int node) {
  return node == 0 || graph->nodes[node - 1].written != graph->nodes[node].written;
}

static bool adds_params(const hd_graph *graph, int node) {
  return begins(graph, node) && has_params(graph, &graph->nodes[node]);
}

int hd__stages_most(const hd_graph *graph) {
  int count = 0;
  for (int i = 0; i < forward_nodes(graph); i++)
    count += adds_params(graph, i);
  return count;
}

static double estimate(const hd_graph *graph, const hd_node *node) {
  double cost = (double)hd__op_flops(node->op, &node->geom);
  for (int o = 0; o < HD_MAX_OUT; o++)
    if (node->out[o] >= 0 && graph->values[node->out[o]].kind == HD_VALUE_ROWS && !node->view)
      cost += OPERATIONS_PER_OUTPUT * (double)hd__shape_elems(&graph->values[node->out[o]].shape);
  return cost;
}

/* The cost of a forward node; the first of a layer has that of its gradients, too. */
static double cost_of(const hd_graph *graph, int node, const double *cost) {
  double sum = 0;
  const int written = graph->nodes[node].written;
  const bool first = begins(graph, node);
  if (cost)
    return first ? cost[written] : 0;
  for (int i = 0; i < graph->node_count; i++)
    if (graph->nodes[i].written == written && (i == node || (first && hd__graph_is_gradient(graph, i))))
      sum += estimate(graph, &graph->nodes[i]);
  return sum;
}

/* ---- Even cuts ---- */

/* Of the first n forward nodes: their cost with gradients, how many have parameters, and the last layer as written that
 * is computed there, at least partly. */
typedef struct prefix {
  double cost;
  int params, written;
} prefix;

static void sum_costs(prefix *sum, const hd_graph *graph, int nodes, const double *cost) {
  for (int n = 0; n < nodes; n++)
    sum[n + 1] =
        (prefix){.cost = sum[n].cost + cost_of(graph, n, cost),
                 .params = sum[n].params + adds_params(graph, n),
                 .written = sum[n].written > graph->nodes[n].written ? sum[n].written : graph->nodes[n].written};
}

/* least[s * width + n] is the cost of the most expensive of s + 1 stages of the first n nodes, with the best cuts, and
 * begin[...] the node with which the last of them begins. */
typedef struct cuts {
  int width; /* nodes + 1 */
  double *least;
  int *begin;
} cuts;

/* The best cut of the first n nodes into s + 1 stages, given those into s. */
static void extend(const cuts *c, const prefix *sum, const hd_graph *graph, int s, int n) {
  double *least = &c->least[s * c->width + n];
  *least = DBL_MAX;
  for (int b = 1; b < n; b++) {
    const double before = c->least[(s - 1) * c->width + b], last = sum[n].cost - sum[b].cost;
    const double dearest = before > last ? before : last;
    if (sum[n].params > sum[b].params && graph->nodes[b].written > sum[b].written && dearest < *least) {
      *least = dearest;
      c->begin[s * c->width + n] = b;
    }
  }
}

/* False: there are fewer places to cut. */
static bool cut_evenly(hd_stages *out, const cuts *c, const prefix *sum, const hd_graph *graph) {
  for (int n = 0; n < c->width; n++)
    c->least[n] = sum[n].params > 0 ? sum[n].cost : DBL_MAX;
  for (int s = 1; s < out->count; s++)
    for (int n = 0; n < c->width; n++)
      extend(c, sum, graph, s, n);
  for (int s = out->count - 1, n = c->width - 1; s > 0; s--) {
    n = c->begin[s * c->width + n];
    out->first[s] = graph->nodes[n].written;
  }
  return c->least[(out->count - 1) * c->width + c->width - 1] < DBL_MAX;
}

hd_status hd__stages_cut(hd_stages *out, hd_ctx *ctx, const hd_graph *graph, const double *cost) {
  const int nodes = forward_nodes(graph), most = hd__stages_most(graph);
  const size_t width = (size_t)nodes + 1, stages = (size_t)out->count;
  HD_OWNED prefix *sum = hd__calloc(width, sizeof *sum);
  HD_OWNED double *least = hd__calloc(width * stages, sizeof *least);
  HD_OWNED int *begin = hd__calloc(width * stages, sizeof *begin);
  HD_TRY(HD_ALLOCATED(sum && least && begin, ctx, NO_MEMORY));
  if (most < out->count)
    return hd__fail(ctx, HD_E_USAGE,
                    "--stages expects at most %d for this network, one for each layer with parameters, found %d; use "
                    "fewer",
                    most, out->count);
  sum_costs(sum, graph, nodes, cost);
  if (!cut_evenly(out, &(cuts){nodes + 1, least, begin}, sum, graph))
    return hd__fail(
        ctx, HD_E_USAGE,
        "--stages expects fewer than %d for this network, because some of its layers are computed together; use fewer",
        out->count);
  return HD_OK;
}

/* ---- Given cuts ---- */

/* Stage s begins with a node, and its nodes have parameters. */
static hd_status check_stage(const hd_plan *plan, hd_ctx *ctx, int stage) {
  const hd_graph *graph = plan->graph;
  const int nodes = forward_nodes(graph);
  const hd_node *first = NULL, *before = NULL;
  bool params = false;
  for (const hd_node *node = graph->nodes; node < graph->nodes + nodes; node++) {
    if (node->written < plan->pipeline.stages.first[stage])
      before = node;
    if (hd__plan_stage_of(plan, node->written) != stage)
      continue;
    first = first ? first : node;
    params |= has_params(graph, node);
  }
  if (stage > 0 && (!first || first->written != plan->pipeline.stages.first[stage]))
    return hd__fail(ctx, HD_E_USAGE,
                    "stage %d cannot begin inside layers that are computed together with '%s'; begin it there or later",
                    stage, before->name);
  if (!params)
    return hd__fail(ctx, HD_E_USAGE,
                    "stage %d expects a layer with parameters, found none from '%s' on; begin it earlier, or the next "
                    "one later",
                    stage, first->name);
  return HD_OK;
}

/* ---- Nodes ---- */

static void number_nodes(hd_plan *plan) {
  const hd_graph *graph = plan->graph;
  const int nodes = forward_nodes(graph);
  for (int i = 0, stage = 0; i < nodes; i++) {
    const int own = hd__plan_stage_of(plan, graph->nodes[i].written);
    plan->nodes[i].stage = stage = own > stage ? own : stage;
  }
  for (int i = graph->node_count - 1, stage = 0; i >= nodes; i--) {
    const int own = hd__plan_stage_of(plan, graph->nodes[i].written);
    plan->nodes[i].stage = stage = own > stage ? own : stage;
  }
}

hd_status hd__pass_stages(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  HD_TRY(HD_NEW(plan->nodes, plan->graph->node_count, ctx, NO_MEMORY));
  plan->pipeline.stages = (hd_stages){.count = 1};
  if (settings->stages.count <= 1)
    return HD_OK;
  plan->pipeline.stages = settings->stages;
  if (plan->pipeline.stages.first[1] == 0)
    HD_TRY(hd__stages_cut(&plan->pipeline.stages, ctx, plan->graph, NULL));
  for (int s = 0; s < plan->pipeline.stages.count; s++)
    HD_TRY(check_stage(plan, ctx, s));
  number_nodes(plan);
  return HD_OK;
}
