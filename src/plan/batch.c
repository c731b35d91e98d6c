/* The passes for what is known only when the whole batch has met.
 *
 * Statistics: for training, each batch_norm gets a batch_stats node before it and reads the batch's mean and variance;
 * its running statistics then follow them. Where the model asks for statistics of the shard, it becomes a shard_norm,
 * which makes its own, and only the running ones follow the batch's. For evaluation it keeps reading the running ones.
 *
 * Segments: what shards sum and others read (statistics, the sums that batch_norm_dx needs) exists after a meeting.
 * The nodes are cut, in order, into segments: a node that reads such a value starts a new one if its maker is in this
 * one. The shards phase becomes one phase a segment, and what a later segment reads of an earlier one lives in batch
 * memory. A node that lanes share by its outputs is a segment of its own. */
#include "base/alloc.h"
#include "graph/op.h"
#include "plan/plan.h"

static hd_status normalise_by_shard(hd_graph *graph, hd_ctx *ctx, int index) {
  hd_node *node = &graph->nodes[index];
  node->op = HD_OP_shard_norm;
  HD_TRY(hd__op_info(node->op)->infer(graph, ctx, node));
  graph->values[node->out[1]].producer = graph->values[node->out[2]].producer = index;
  return HD_OK;
}

static hd_status add_statistics(hd_graph *graph, hd_ctx *ctx, int index) {
  hd_node *stats;
  const hd_node *norm = &graph->nodes[index];
  HD_TRY(hd__graph_insert_node(&stats, graph, ctx, index, HD_OP_batch_stats, norm->name, norm->written));
  hd_node *reader = &graph->nodes[index + 1];
  stats->geom = reader->geom;
  stats->attrs = reader->attrs;
  stats->in[0] = reader->in[0];
  HD_TRY(hd__op_info(HD_OP_batch_stats)->infer(graph, ctx, stats));
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
    if (graph->nodes[i].op == HD_OP_batch_norm)
      HD_TRY(add_statistics(graph, ctx, i++));
  return HD_OK;
}

static bool meets(const hd_graph *graph, int value) {
  int producer = value >= 0 ? graph->values[value].producer : -1;
  if (producer < 0)
    return false;
  hd_op_class class = hd__op_info(graph->nodes[producer].op)->class;
  return class == HD_CLASS_REDUCE || class == HD_CLASS_STATS;
}

static bool is_read_by_others(const hd_graph *graph, int value, int reader) {
  for (int i = 0; i < graph->node_count; i++)
    for (int k = 0; k < HD_MAX_IN; k++)
      if (i != reader && graph->nodes[i].in[k] == value)
        return true;
  return false;
}

/* Whether a parameter's gradient will be formed from what its node reads. */
static bool is_formed(const hd_plan *plan, int param) {
  for (int i = 0; i < plan->graph->node_count; i++)
    for (int k = 0; k < HD_MAX_OUT; k++) {
      const int value = plan->graph->nodes[i].out[k];
      if (value >= 0 && plan->graph->values[value].kind == HD_VALUE_PARAM_GRAD &&
          plan->graph->values[value].param == param)
        return plan->kernels->form[plan->graph->nodes[i].op];
    }
  return false;
}

/* Whether lanes share a node by its outputs instead of by its samples, at the price of two meetings: each makes those
 * outputs whose weights it updates, so that weights never leave their lane. The input goes to all lanes instead, where
 * forming the weight's gradient needs it anyway, and the outputs go back. It pays for large weights that meet fewer
 * samples than they have columns, unless the input's gradient needs all of them in every lane after all. */
static bool is_by_outputs(const hd_plan *plan, int index, const hd_plan_settings *settings) {
  enum { WORTH_MEETING = 16384 };
  const hd_node *node = &plan->graph->nodes[index];
  if (!settings->train || settings->shard_rows > 0 || !plan->kernels->run_outputs[node->op])
    return false;
  const hd_value *weight = &plan->graph->values[node->in[1]];
  return (int64_t)node->geom.ci * node->geom.co >= WORTH_MEETING && node->geom.ci >= settings->batch &&
         is_formed(plan, weight->param) && !is_read_by_others(plan->graph, node->in[1], index);
}

hd_status hd__pass_segments(hd_plan *plan, hd_ctx *ctx, const hd_plan_settings *settings) {
  const hd_graph *graph = plan->graph;
  plan->segment = hd__calloc((size_t)graph->node_count, sizeof *plan->segment);
  plan->by_outputs = hd__calloc((size_t)graph->node_count, sizeof *plan->by_outputs);
  plan->gathered = hd__calloc((size_t)graph->node_count, sizeof *plan->gathered);
  if (!plan->segment || !plan->by_outputs || !plan->gathered)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while planning");
  for (int p = 0; p < graph->param_count; p++)
    if (graph->params[p].running && plan->trains)
      plan->gathered[graph->values[graph->params[p].statistic].producer] = plan->gathers = true;
  int now = 0;
  for (int i = 0; i < graph->node_count; i++) {
    for (int k = 0; k < HD_MAX_IN; k++) {
      int value = graph->nodes[i].in[k];
      if (!meets(graph, value))
        continue;
      int producer = graph->values[value].producer;
      plan->gathered[producer] = plan->gathers = true;
      if (plan->segment[producer] == now)
        now++;
    }
    plan->by_outputs[i] = is_by_outputs(plan, i, settings);
    plan->segment[i] = plan->by_outputs[i] ? ++now : now;
    now += plan->by_outputs[i];
  }
  plan->segments = now + 1;
  return HD_OK;
}
