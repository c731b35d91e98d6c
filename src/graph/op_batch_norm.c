/* batch_norm: y = (x - mean) / sqrt(var + eps) * weight + bias per channel, for images and flat values.
 *
 * As written in a model, it reads the running statistics: the form for evaluation. For training a pass
 * (plan/plan_batch.c) inserts batch_stats before it and makes it read the batch's statistics, which exist only after a
 * barrier over all shards, as do the gradients' sums that batch_norm_dx reads. The derivative of mean and variance is
 * inside batch_norm_dx. */
#include "graph/gradient.h"

static hd_status make_one(int *out, hd_graph *graph, hd_ctx *ctx, const hd_node *node, int slot, const char *suffix,
                          hd_init init, bool running) {
  int32_t channels = node->geom.ci;
  HD_TRY(hd__graph_new_param(out, graph, ctx, node, slot, suffix, &(hd_shape){1, {channels}},
                             &(hd_shape){4, {channels, 1, 1, 1}}, 1));
  hd_param *param = &graph->params[graph->values[*out].param];
  param->init = init;
  param->running = running;
  param->momentum = node->attrs.momentum;
  return HD_OK;
}

hd_status hd__op_batch_norm_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_shape shape = graph->values[node->in[0]].shape;
  char text[HD_SHAPE_TEXT_BYTES];
  if (shape.rank != 1 && shape.rank != 3)
    return hd__fail(ctx, HD_E_SHAPE, "layer '%s': batch_norm expects channels or channels x height x width, found %s",
                    node->name, hd__shape_text(text, sizeof text, &shape));
  node->geom = hd__geom_of_shape(&shape);
  node->geom.eps = node->attrs.eps;
  HD_TRY(make_one(&node->in[1], graph, ctx, node, 0, "weight", HD_INIT_ONE, false));
  HD_TRY(make_one(&node->in[2], graph, ctx, node, 1, "bias", HD_INIT_ZERO, false));
  HD_TRY(make_one(&node->in[3], graph, ctx, node, 2, "running_mean", HD_INIT_ZERO, true));
  HD_TRY(make_one(&node->in[4], graph, ctx, node, 3, "running_var", HD_INIT_ONE, true));
  HD_TRY(hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &shape));
  graph->values[node->out[0]].order = graph->values[node->in[0]].order;
  return HD_OK;
}

/* in: x, dy, mean, var of the batch; then dy, w, x, mean, var, dw, db, the last two summed over all shards. */
hd_status hd__op_batch_norm_grad(hd_grad *grad, const hd_node *node) {
  int dy = hd__grad_of(grad, node->out[0]);
  hd_node *dw, *dx;
  HD_TRY(hd__grad_node(&dw, grad, HD_OP_batch_norm_dw, node, (int[]){node->in[0], dy, node->in[3], node->in[4]}, 4));
  int sums[2] = {dw->out[0], dw->out[1]};
  hd__grad_note_param(grad, node->in[1], sums[0]);
  hd__grad_note_param(grad, node->in[2], sums[1]);
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  const int in[] = {dy, node->in[1], node->in[0], node->in[3], node->in[4], sums[0], sums[1]};
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_batch_norm_dx, node, in, 7));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

static int64_t elems_of(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

/* Costs count the multiply-adds of layers with weights to multiply; a normalisation is counted in flops. */
int64_t hd__op_batch_norm_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_batch_norm_flops(const hd_geom *g) { return 3 * elems_of(g); }

int hd__op_batch_norm_sample(hd_geom *g, int index) {
  static const struct {
    int32_t c, h, w;
  } list[] = {{1, 1, 1}, {16, 1, 1}, {3, 5, 4}, {17, 3, 3}, {40, 2, 7}, {64, 1, 1}};
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = hd__geom_of_shape(&(hd_shape){3, {list[index].c, list[index].h, list[index].w}});
  g->eps = 1e-5f;
  return 1;
}

hd_status hd__op_batch_stats_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_shape channels = {1, {node->geom.ci}};
  HD_TRY(hd__op_output(graph, ctx, node, 0, "mean", HD_VALUE_STATISTIC, HD_F32, &channels));
  return hd__op_output(graph, ctx, node, 1, "var", HD_VALUE_STATISTIC, HD_F32, &channels);
}

hd_status hd__op_batch_norm_dw_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_shape channels = {1, {node->geom.ci}};
  HD_TRY(hd__op_output(graph, ctx, node, 0, "dw", HD_VALUE_PARAM_GRAD, HD_F32, &channels));
  return hd__op_output(graph, ctx, node, 1, "db", HD_VALUE_PARAM_GRAD, HD_F32, &channels);
}

hd_status hd__op_batch_norm_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_shape shape = graph->values[node->in[2]].shape;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &shape);
}

/* No gradient passes through the statistics: batch_norm's rule includes them. */
hd_status hd__op_batch_stats_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_batch_norm_dw_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_batch_norm_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
int64_t hd__op_batch_stats_cost(const hd_geom *g) { return hd__op_batch_norm_cost(g); }
int64_t hd__op_batch_norm_dw_cost(const hd_geom *g) { return hd__op_batch_norm_cost(g); }
int64_t hd__op_batch_norm_dx_cost(const hd_geom *g) { return hd__op_batch_norm_cost(g); }
int64_t hd__op_batch_stats_flops(const hd_geom *g) { return 4 * elems_of(g); }
int64_t hd__op_batch_norm_dw_flops(const hd_geom *g) { return 5 * elems_of(g); }
int64_t hd__op_batch_norm_dx_flops(const hd_geom *g) { return 6 * elems_of(g); }
int hd__op_batch_stats_sample(hd_geom *g, int index) { return hd__op_batch_norm_sample(g, index); }
int hd__op_batch_norm_dw_sample(hd_geom *g, int index) { return hd__op_batch_norm_sample(g, index); }
int hd__op_batch_norm_dx_sample(hd_geom *g, int index) { return hd__op_batch_norm_sample(g, index); }
