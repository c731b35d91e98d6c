/* The passes for values that depend on the whole batch.
 *
 * Statistics: for training, each batch_norm gets a batch_stats node before it and reads the batch's mean and variance;
 * its running statistics are updated from them. With `stats: shard` it becomes a shard_norm, which computes the shard's
 * statistics, and only the running ones use the batch's. For evaluation it keeps reading the running statistics, and so
 * does a frozen norm in training.
 *
 * Segments: sums over all shards (statistics, the sums that batch_norm_dx needs) exist only after a barrier. The nodes
 * are divided, in order, into segments: a node that reads such a value starts a new segment if its producer is in the
 * current one. Each segment is a shards phase, and values that a later segment reads are in batch memory. A node that
 * threads divide by its outputs is a segment by itself, and so is a loss that the program computes. */
#include "base/alloc.h"
#include "op/op.h"
#include "plan/passes.h"

static hd_status normalise_by_shard(hd_graph *graph, hd_ctx *ctx, int index) {
  hd_node *node = &graph->nodes[index];
  const hd_shape channels = {1, {node->geom.ci}};
  node->op = HD_OP_shard_norm;
  HD_TRY(hd__graph_output(graph, ctx, node, 1, "shard_mean", &(hd_value_type){HD_VALUE_ROWS, HD_F32, channels}));
  HD_TRY(hd__graph_output(graph, ctx, node, 2, "shard_var", &(hd_value_type){HD_VALUE_ROWS, HD_F32, channels}));
  graph->values[node->out[1]].producer = graph->values[node->out[2]].producer = index;
  return HD_OK;
}

static hd_status add_statistics(hd_graph *graph, hd_ctx *ctx, int index) {
  hd_node *stats;
  HD_TRY(hd__graph_insert_node(&stats, graph, ctx, index, HD_OP_batch_stats, &graph->nodes[index]));
  hd_node *reader = &graph->nodes[index + 1];
  stats->geom = reader->geom;
  stats->attrs = reader->attrs;
  stats->in[0] = reader->in[0];
  const hd_shape channels = {1, {stats->geom.ci}};
  HD_TRY(hd__graph_output(graph, ctx, stats, 0, "mean", &(hd_value_type){HD_VALUE_STATISTIC, HD_F32, channels}));
  HD_TRY(hd__graph_output(graph, ctx, stats, 1, "var", &(hd_value_type){HD_VALUE_STATISTIC, HD_F32, channels}));
  for (int i = 0; i < 2; i++) {
    int running = graph->values[reader->in[3 + i]].param;
    graph->params[running].statistic = stats->out[i];
    graph->values[stats->out[i]].producer = index;
    reader->in[3 + i] = reader->attrs.shard_stats ? -1 : stats->out[i];
  }
  return reader->attrs.shard_stats ? normalise_by_shard(graph, ctx, index + 1) : HD_OK;
}

hd_status hd__pass_batch_statistics(hd_graph *graph, hd_ctx *ctx) {
  for (int i = 0; i < graph->node_count; i++)
    if (graph->nodes[i].op == HD_OP_batch_norm && !hd__graph_has_stored_statistics(graph, &graph->nodes[i]))
      HD_TRY(add_statistics(graph, ctx, i++));
  return HD_OK;
}

static bool is_gathered(const hd_graph *graph, int value) {
  int producer = value >= 0 ? graph->values[value].producer : -1;
  if (producer < 0)
    return false;
  hd_op_class class = hd__op_info(graph->nodes[producer].op)->class;
  return class == HD_CLASS_REDUCE || class == HD_CLASS_STATS;
}

/* Whether a parameter's gradient will be formed from what its node reads. */
static bool is_formed(const hd_plan *plan, int param) {
  const hd_graph *graph = plan->graph;
  for (const hd_value *v = graph->values; v < graph->values + graph->value_count; v++)
    if (v->kind == HD_VALUE_PARAM_GRAD && v->param == param && v->producer >= 0)
      return hd__plan_defers(plan, &graph->nodes[v->producer]);
  return false;
}

/* Whether threads divide a node by its outputs instead of by its samples, at the price of two barriers: each thread
 * computes a share of the outputs and reads only its share of the weights: in a network of one large weight, those that
 * it updates. All threads read the input instead, which forming the weight's gradient needs anyway, and the outputs of
 * all threads. It pays for large weights with fewer samples than columns, unless the input's gradient reads all weights
 * in every thread. */
static bool is_by_outputs(const hd_plan *plan, int index, const hd_plan_settings *settings) {
  enum { WORTH_A_BARRIER = 16384 };
  const hd_node *node = &plan->graph->nodes[index];
  if (!settings->train || plan->pipeline.stages.count > 1 || !plan->kernels->run_outputs[node->op])
    return false;
  const hd_value *weight = &plan->graph->values[node->in[1]];
  return (int64_t)node->geom.ci * node->geom.co >= WORTH_A_BARRIER && node->geom.ci >= settings->batch &&
         is_formed(plan, weight->param) && hd__graph_reads(plan->graph, node->in[1], NULL) == 1;
}

void hd__pass_segments(hd_plan *plan, const hd_plan_settings *settings) {
  const hd_graph *graph = plan->graph;
  for (int p = 0; p < graph->param_count; p++)
    if (graph->params[p].running && !graph->params[p].frozen && plan->trains)
      plan->nodes[graph->values[graph->params[p].statistic].producer].gathered = plan->gathers = true;
  int now = 0;
  for (int i = 0; i < graph->node_count; i++) {
    for (int k = 0; k < HD_MAX_IN; k++) {
      int value = graph->nodes[i].in[k];
      if (!is_gathered(graph, value))
        continue;
      int producer = graph->values[value].producer;
      plan->nodes[producer].gathered = plan->gathers = true;
      if (plan->nodes[producer].segment == now)
        now++;
    }
    plan->nodes[i].whole = plan->program && &graph->nodes[i] == hd__graph_loss_node(graph);
    plan->nodes[i].by_outputs = !plan->nodes[i].whole && is_by_outputs(plan, i, settings);
    const bool alone = plan->nodes[i].whole || plan->nodes[i].by_outputs;
    plan->nodes[i].segment = alone ? ++now : now;
    now += alone;
  }
  plan->segments = now + 1;
}
