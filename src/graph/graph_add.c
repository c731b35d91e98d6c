/* Adds nodes and the loss as written in a model, and changes the loss. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "graph/op.h"

hd_status hd__graph_add(int *out, hd_graph *graph, hd_ctx *ctx, hd_op op, const char *name, const int *in, int count,
                        const hd_attrs *attrs) {
  assert(count <= HD_MAX_IN);
  *out = -1;
  hd_node *node;
  HD_TRY(hd__graph_new_node(&node, graph, ctx, op, name, graph->written_count));
  int index = (int)(node - graph->nodes);
  memcpy(node->in, in, (size_t)count * sizeof *in);
  node->attrs = *attrs;
  hd_status status = hd__op_info(op)->infer(graph, ctx, node);
  if (status != HD_OK) {
    hd__free(graph->nodes[--graph->node_count].name);
    return status;
  }
  graph->written_count++;
  for (int i = 0; i < HD_MAX_OUT; i++)
    if (node->out[i] >= 0)
      graph->values[node->out[i]].producer = index;
  *out = node->out[0];
  return HD_OK;
}

/* The weights of the loss, a constant with one element per score. */
static hd_status add_weights(int *out, hd_graph *graph, hd_ctx *ctx, const float *weight, const hd_shape *scores) {
  HD_TRY(hd__graph_new_value(out, graph, ctx, "loss.weight", HD_VALUE_CONST, HD_F32, scores));
  hd_value *value = &graph->values[*out];
  size_t used = (size_t)hd__shape_elems(scores) * sizeof *weight;
  value->constant = hd__calloc((size_t)hd__value_stride(value), sizeof *weight);
  if (!value->constant)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while building the graph");
  memcpy(value->constant, weight, used);
  return HD_OK;
}

hd_status hd__graph_add_loss(hd_graph *graph, hd_ctx *ctx, int logits, const hd_loss *loss) {
  int out, weight = -1, written = logits;
  if (graph->values[written].order.rank == 3) /* the order of classes is the order in which PyTorch flattens */
    HD_TRY(hd__graph_add(&logits, graph, ctx, HD_OP_flatten, "logits", &written, 1, &(hd_attrs){.move = 1}));
  if (loss->op != HD_OP_cross_entropy) {
    graph->values[graph->label].dtype = HD_F32;
    graph->values[graph->label].shape = graph->values[logits].shape;
  }
  if (loss->weight)
    HD_TRY(add_weights(&weight, graph, ctx, loss->weight, &graph->values[logits].shape));
  HD_TRY(hd__graph_add(&out, graph, ctx, loss->op, "loss", (int[]){logits, graph->label, weight}, 3, &loss->attrs));
  graph->logits = logits;
  graph->loss = out;
  return HD_OK;
}

const hd_node *hd__graph_loss_node(const hd_graph *graph) { return &graph->nodes[graph->values[graph->loss].producer]; }

void hd__graph_soften_labels(hd_graph *graph) {
  hd_node *node = &graph->nodes[graph->values[graph->loss].producer];
  if (node->op != HD_OP_cross_entropy)
    return;
  node->geom.soft_labels = 1;
  graph->values[graph->label].dtype = HD_F32;
  graph->values[graph->label].shape = graph->values[graph->logits].shape;
}

hd_status hd__graph_smooth_labels(hd_graph *graph, hd_ctx *ctx, double smoothing) {
  hd_node *node = &graph->nodes[graph->values[graph->loss].producer];
  if (node->op != HD_OP_cross_entropy)
    return hd__fail(ctx, HD_E_USAGE,
                    "--label-smoothing expects a model with the loss cross_entropy, found %s; leave it out",
                    hd__op_info(node->op)->name);
  node->attrs.label_smoothing = node->geom.label_smoothing = (float)smoothing;
  return HD_OK;
}
