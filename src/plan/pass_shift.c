/* The pass that moves the shift of normalisation into a linear layer.
 *
 * Normalised samples of one channel are x + shift, where x is a multiple of the pixels: zero in the background of a
 * picture. If one linear layer alone reads them, samples come as x, and the layer becomes a shifted one, which adds
 * the shift times the sum of its weights: its kernels may leave the background out. A rewrite of the graph, made for
 * every device, except for narrow layers, where finding the zeros takes as long as the products with them. */
#include "plan/passes.h"

enum { FEWEST_OUTPUTS = 64 };

/* The only node that computes with the samples, in training as in evaluation: reshaping may lie between. -1: there are
 * several, or none. */
static int only_reader(const hd_graph *graph) {
  int value = graph->input, reader;
  while (hd__graph_reads(graph, value, &reader) == 1) {
    if (!graph->nodes[reader].view || hd__op_drops(graph->nodes[reader].op))
      return reader;
    value = graph->nodes[reader].out[0];
  }
  return -1;
}

static bool has_one_channel(const hd_shape *samples) { return samples->rank == 1 || samples->dim[0] == 1; }

/* Returns whether there is such a layer. */
bool hd__pass_shift(hd_graph *graph, float shift) {
  const int reader = only_reader(graph);
  if (reader < 0 || !has_one_channel(&graph->values[graph->input].shape))
    return false;
  hd_node *node = &graph->nodes[reader];
  if (node->op != HD_OP_linear || node->geom.co < FEWEST_OUTPUTS || hd__graph_reads(graph, node->in[1], NULL) != 1)
    return false;
  node->op = HD_OP_shifted_linear;
  node->geom.shifted_linear.shift = shift;
  return true;
}
