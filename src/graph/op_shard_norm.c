/* shard_norm: batch_norm in training with `stats: shard`, with the mean and variance of the shard's samples.
 *
 * No barrier is needed, so a thread takes its shards through the whole network in one phase. Models name batch_norm;
 * a pass (plan/plan_batch.c) replaces it by this operation. The derivative of mean and variance is inside
 * shard_norm_dx. */
#include "graph/gradient.h"

/* y and the parameters exist already; the shard's mean and variance are in the slot of its first sample. */
hd_status hd__op_shard_norm_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_shape channels = {1, {node->geom.ci}};
  HD_TRY(hd__op_output(graph, ctx, node, 1, "shard_mean", HD_VALUE_ROWS, HD_F32, &channels));
  return hd__op_output(graph, ctx, node, 2, "shard_var", HD_VALUE_ROWS, HD_F32, &channels);
}

hd_status hd__op_shard_norm_grad(hd_grad *grad, const hd_node *node) {
  int dy = hd__grad_of(grad, node->out[0]), mean = node->out[1], var = node->out[2];
  hd_node *dw, *dx;
  HD_TRY(hd__grad_node(&dw, grad, HD_OP_batch_norm_dw, node, (int[]){node->in[0], dy, mean, var}, 4));
  int sums[2] = {dw->out[0], dw->out[1]};
  hd__grad_note_param(grad, node->in[1], sums[0]);
  hd__grad_note_param(grad, node->in[2], sums[1]);
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_shard_norm_dx, node, (int[]){dy, node->in[1], node->in[0], mean, var}, 5));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

hd_status hd__op_shard_norm_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  return hd__op_batch_norm_dx_infer(graph, ctx, node);
}

hd_status hd__op_shard_norm_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
int64_t hd__op_shard_norm_cost(const hd_geom *g) { return hd__op_batch_norm_cost(g); }
int64_t hd__op_shard_norm_dx_cost(const hd_geom *g) { return hd__op_batch_norm_cost(g); }

int64_t hd__op_shard_norm_flops(const hd_geom *g) { return hd__op_batch_stats_flops(g) + hd__op_batch_norm_flops(g); }

int64_t hd__op_shard_norm_dx_flops(const hd_geom *g) {
  return hd__op_batch_norm_dw_flops(g) + hd__op_batch_norm_dx_flops(g);
}

int hd__op_shard_norm_sample(hd_geom *g, int index) { return hd__op_batch_norm_sample(g, index); }
int hd__op_shard_norm_dx_sample(hd_geom *g, int index) { return hd__op_batch_norm_sample(g, index); }
