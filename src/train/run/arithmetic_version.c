/* The predicates of the versions of the arithmetic; see arithmetic_version.h.
 *
 * They look at a graph after fusion and after the pass of shifts, which decides whether version 2 matters. A predicate
 * may also hold for a few networks that its version did not change; it holds for all that it changed. */
#include "train/run/arithmetic_version.h"

#include <math.h>

#include "base/version.h"
#include "op/conv2d/winograd_rule.h"
#include "op/op.h"
#include "plan/passes.h"
#include "train/placement/run_plan.h"
#include "train/settings/run_record.h"

enum { ONE_CHUNK = 2048 }; /* how many elements version 5 had in a chunk of such a norm's parameters */

static bool has_shift(const hd_graph *graph) {
  for (int i = 0; i < graph->node_count; i++)
    if (graph->nodes[i].op == HD_OP_shifted_linear)
      return true;
  return false;
}

static bool has_tiles(const hd_graph *graph, int side) {
  for (int i = 0; i < graph->node_count; i++)
    if (graph->nodes[i].op == HD_OP_conv2d && graph->nodes[i].geom.window.kh == side &&
        hd_geom_is_winograd(&graph->nodes[i].geom))
      return true;
  return false;
}

static bool has_tiles_3(const hd_graph *graph) { return has_tiles(graph, 3); }
static bool has_tiles_5(const hd_graph *graph) { return has_tiles(graph, 5); }

static bool has_shard_norms(const hd_graph *graph) {
  int count = 0;
  for (int i = 0; i < graph->node_count; i++)
    count += graph->nodes[i].op == HD_OP_batch_norm && graph->nodes[i].attrs.shard_stats;
  return count > 1;
}

static bool is_batch_norm(const hd_node *node) { return node->op == HD_OP_batch_norm && !node->attrs.shard_stats; }

/* The layers whose values version 5 computed again. */
static bool is_cheap(const hd_node *node) {
  return is_batch_norm(node) || (hd__op_info(node->op)->rule->elementwise && !node->view);
}

static int norms_before(const hd_graph *graph, int node) {
  int count = 0;
  for (int i = 0; i <= node; i++)
    count += is_batch_norm(&graph->nodes[i]);
  return count;
}

/* Whether version 5 computed values again from values that had been computed again: a cheap layer reads another one,
 * with the statistics of a norm between them, and a norm follows. */
static bool has_chain(const hd_graph *graph) {
  const int norms = norms_before(graph, graph->node_count - 1);
  for (int i = 0; i < graph->node_count; i++) {
    const int from = graph->values[graph->nodes[i].in[0]].producer, here = norms_before(graph, i);
    if (is_cheap(&graph->nodes[i]) && from >= 0 && is_cheap(&graph->nodes[from]) && norms_before(graph, from) < here &&
        here < norms)
      return true;
  }
  return false;
}

/* The most channels of a batch norm that reads a flattened image, 0: none does. */
static int64_t flat_norm(const hd_graph *graph) {
  int64_t most = 0;
  for (int i = 0; i < graph->node_count; i++) {
    const hd_value *x = &graph->values[graph->nodes[i].in[0]];
    const int64_t elems = hd__shape_elems(&x->shape);
    if (graph->nodes[i].op == HD_OP_batch_norm && x->order.rank == 3)
      most = elems > most ? elems : most;
  }
  return most;
}

static bool has_flat_norm(const hd_graph *graph) { return flat_norm(graph) > 0; }
static bool has_long_flat_norm(const hd_graph *graph) { return flat_norm(graph) > ONE_CHUNK; }

/* Weights whose rule ends their training before the run's end, and that muon may have trained. */
static bool has_ended(const hd_graph *graph) {
  for (int i = 0; i < graph->param_count; i++)
    if (!isnan(graph->params[i].update.value[HD_SET_epochs]))
      return true;
  return false;
}

static bool is_bf16(hd_arithmetic_run run) { return run.bf16; }
static bool looks_ahead(hd_arithmetic_run run) { return run.lookahead; }

static const struct change {
  int version;
  bool (*touches)(const hd_graph *graph); /* NULL: every network */
  bool (*affects)(hd_arithmetic_run run); /* NULL: every run of it */
  bool files_only;                        /* the order of elements in files, not a number of a step */
  const char *what;
} changes[] = {
    {2, has_shift, NULL, false, "the first layer adds the shift of the normalisation"},
    {3, has_tiles_3, NULL, false, "wide 3 x 3 convolutions are computed in tiles of 4 x 4 outputs"},
    {4, has_tiles_5, NULL, false, "wide 5 x 5 convolutions are computed in tiles"},
    {5, has_shard_norms, NULL, false, "running statistics of several norms with 'stats: shard' are weighted correctly"},
    {6, has_chain, NULL, false, "values between batch norms are recomputed correctly"},
    {6, has_long_flat_norm, NULL, false,
     "the gradients of a batch norm of more than 2,048 flattened elements are clipped in another order"},
    {6, has_flat_norm, NULL, true, "a batch norm after a flattened image is stored in PyTorch's order"},
    {6, has_ended, looks_ahead, false,
     "weights that muon trained for some epochs follow the slow weights of lookahead"},
    {6, NULL, is_bf16, false, "products of bfloat16 are summed in blocks of 32, and so are the gradients of weights"},
};

hd_arithmetic_run hd__arithmetic_of_settings(const hd_settings *settings) {
  return (hd_arithmetic_run){.bf16 = settings->precision == HD_PRECISION_BF16,
                             .lookahead = settings->lookahead > 0,
                             .parameters = settings->parameters};
}

hd_arithmetic_run hd__arithmetic_of_record(const json_t *record) {
  const char *bf16 = hd_choice_name(HD_OPT_PRECISION, HD_PRECISION_BF16);
  return (hd_arithmetic_run){.bf16 = !strcmp(hd__record_setting(record, HD_OPT_PRECISION), bf16),
                             .lookahead = *hd__record_setting(record, HD_OPT_LOOKAHEAD) != 0,
                             .parameters = hd__record_setting(record, HD_OPT_PARAMETERS)};
}

hd_status hd__arithmetic_changed(hd_arithmetic_change *out, hd_ctx *ctx, const hd_network *network,
                                 hd_arithmetic_run run, int64_t found, hd_arithmetic_of of) {
  hd_graph *graph;
  *out = (hd_arithmetic_change){0};
  if (found >= HD_ARITHMETIC_VERSION)
    return HD_OK;
  HD_TRY(hd__network_graph(&graph, ctx, network));
  const hd_status status = hd__planned_rules(graph, ctx, run.parameters);
  if (status != HD_OK) {
    hd__graph_destroy(graph);
    return status;
  }
  hd__pass_fuse(graph, true);
  hd__pass_shift(graph, 1);
  for (const struct change *c = changes; c < changes + sizeof changes / sizeof *changes && !out->version; c++)
    if (c->version > found && (!c->files_only || of == HD_ARITHMETIC_OF_DIGESTS) &&
        (!c->touches || c->touches(graph)) && (!c->affects || c->affects(run)))
      *out = (hd_arithmetic_change){c->version, c->what};
  hd__graph_destroy(graph);
  return HD_OK;
}
