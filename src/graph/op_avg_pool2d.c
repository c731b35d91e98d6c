/* avg_pool2d and global_avg_pool2d: the mean of each window of an image, and the mean of each channel; and their
 * gradient.
 *
 * With count_include_pad (PyTorch's default) the padding's zeros count in the divisor, else a window is divided by the
 * number of its pixels. The global operation has one window as large as the image. */
#include "graph/gradient.h"

static hd_status infer_pool(hd_graph *graph, hd_ctx *ctx, hd_node *node, const char *op) {
  HD_TRY(hd__op_pool_geom(graph, ctx, node, op));
  const hd_geom *g = &node->geom;
  return hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &(hd_shape){3, {g->co, g->ho, g->wo}});
}

hd_status hd__op_avg_pool2d_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return infer_pool(graph, ctx, node, "avg_pool2d");
}

hd_status hd__op_global_avg_pool2d_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_shape *shape = &graph->values[node->in[0]].shape;
  for (int side = 0; side < 2; side++)
    node->attrs.kernel[side] = shape->rank == 3 ? shape->dim[1 + side] : 1;
  return infer_pool(graph, ctx, node, "global_avg_pool2d");
}

hd_status hd__op_avg_pool2d_grad(hd_grad *grad, const hd_node *node) {
  hd_node *dx;
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_avg_pool2d_dx, node, (int[]){hd__grad_of(grad, node->out[0])}, 1));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_global_avg_pool2d_grad(hd_grad *grad, const hd_node *node) {
  return hd__op_avg_pool2d_grad(grad, node);
}

hd_status hd__op_avg_pool2d_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &(hd_shape){3, {g->ci, g->hi, g->wi}});
}

hd_status hd__op_avg_pool2d_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }

int64_t hd__op_avg_pool2d_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_global_avg_pool2d_cost(const hd_geom *g) { return hd__op_avg_pool2d_cost(g); }
int64_t hd__op_avg_pool2d_dx_cost(const hd_geom *g) { return hd__op_avg_pool2d_cost(g); }

/* An addition for each position and a division; the gradient has the same. */
int64_t hd__op_avg_pool2d_flops(const hd_geom *g) { return (int64_t)g->co * g->ho * g->wo * (g->kh * g->kw + 1); }
int64_t hd__op_global_avg_pool2d_flops(const hd_geom *g) { return hd__op_avg_pool2d_flops(g); }
int64_t hd__op_avg_pool2d_dx_flops(const hd_geom *g) { return hd__op_avg_pool2d_flops(g); }

/* max_pool2d's shapes, each with both divisors. */
int hd__op_avg_pool2d_sample(hd_geom *g, int index) {
  if (!hd__op_max_pool2d_sample(g, index / 2))
    return 0;
  g->count_include_pad = index % 2;
  return 1;
}

int hd__op_global_avg_pool2d_sample(hd_geom *g, int index) {
  if (!hd__op_sample_elementwise(g, index))
    return 0;
  g->kh = g->hi;
  g->kw = g->wi;
  return hd__geom_finish(g);
}

int hd__op_avg_pool2d_dx_sample(hd_geom *g, int index) { return hd__op_avg_pool2d_sample(g, index); }
