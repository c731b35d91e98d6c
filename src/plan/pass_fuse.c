/* The fusion pass: a convolution with the ReLU and the max pool after it, a linear layer with the ReLU.
 *
 * A fusion that changes the order of a sum (a pooled convolution's gradients walk windows) is a rewrite of the graph,
 * made for every device, the reference included. A pool after a convolution with groups is not fused: such layers use
 * strides instead, and their kernels need not support pooled positions. ReLU and max pool may be in either order: both
 * orders give the same result. Values between the fused nodes lose their producer and are never stored. */
#include "plan/passes.h"

static bool is_fusible_pool(const hd_geom *g) {
  return g->window.kh == g->window.kw && g->window.sh == g->window.kh && g->window.sw == g->window.kw &&
         g->window.ph == 0 && g->window.pw == 0 && g->window.kh > 1 && !g->window.ceil_mode;
}

static bool takes_pool(const hd_node *node, const hd_node *next) {
  return next->op == HD_OP_max_pool2d && node->op == HD_OP_conv2d && node->geom.conv.pool == 1 &&
         node->geom.conv.groups == 1 && is_fusible_pool(&next->geom);
}

/* Whether the ReLU behind the node is followed by a pool that can be fused. */
static bool has_pool_behind(const hd_graph *graph, const hd_node *node, const hd_node *relu) {
  int next;
  return relu->out[0] != graph->logits && hd__graph_reads(graph, relu->out[0], &next) == 1 &&
         takes_pool(node, &graph->nodes[next]);
}

/* Fuses `next`, the only reader of the node's output, into the node; false if they do not fuse. */
static bool absorb(const hd_graph *graph, hd_node *node, const hd_node *next, bool relus) {
  bool relu = next->op == HD_OP_relu && !node->geom.relu && (node->op == HD_OP_conv2d || node->op == HD_OP_linear) &&
              (relus || has_pool_behind(graph, node, next));
  bool pool = takes_pool(node, next);
  if (relu)
    node->geom.relu = 1;
  if (pool) {
    node->geom.conv.pool = next->geom.window.kh;
    node->geom.hp = next->geom.ho;
    node->geom.wp = next->geom.wo;
    node->out[1] = next->out[1];
  }
  if (relu || pool)
    node->out[0] = next->out[0];
  return relu || pool;
}

void hd__pass_fuse(hd_graph *graph, bool relu) {
  for (int i = 0; i < graph->node_count; i++) {
    int next;
    while (graph->nodes[i].out[0] != graph->logits && hd__graph_reads(graph, graph->nodes[i].out[0], &next) == 1 &&
           absorb(graph, &graph->nodes[i], &graph->nodes[next], relu))
      hd__graph_remove_node(graph, next);
  }
}
