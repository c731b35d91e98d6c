/* weighted_sum by the kernels of its heads' losses: of each head the losses of some samples, or its gradient without
 * weight and divisor, which are applied afterwards. A cross-entropy's gradient has a chain of its own. */
#include "op/softmax/softmax_cpu.h"
#include "op/weighted_sum/weighted_sum.h"

enum { SAMPLES = 64 };

static const hd_kernels *kernels; /* the table that these kernels are part of */

static hd_op op_of(const hd_loss_head *h) {
  switch (h->loss) {
  case HD_HEAD_CROSS_ENTROPY: return HD_OP_cross_entropy;
  case HD_HEAD_MSE: return HD_OP_mse;
  case HD_HEAD_L1: return HD_OP_l1;
  case HD_HEAD_HUBER: return HD_OP_huber;
  default: return HD_OP_bce_with_logits;
  }
}

static hd_geom geom_of(const hd_loss_head *h) {
  hd_geom g = weighted_sum_settings(h);
  g.ci = g.co = h->count;
  g.hi = g.wi = 1;
  g.cross_entropy.label_smoothing = h->setting;
  g.cross_entropy.ignore_index = -1;
  return g;
}

/* The call of a head's loss for samples n to n + rows - 1. */
static hd_call call_of(const hd_call *call, const hd_loss_head *h, const hd_geom *g, int64_t n, int64_t rows) {
  return (hd_call){.g = g,
                   .rows = rows,
                   .in = {in_row(call, 0, n) + h->first, in_row(call, 1, n) + h->target},
                   .in_stride = {call->in_stride[0], call->in_stride[1]},
                   .divisor = 1};
}

/* out[i] = fma(w, loss of sample n + i, out[i]) */
static void add_head(const hd_call *call, const hd_loss_head *h, int64_t n, int64_t rows, float *out) {
  const hd_geom g = geom_of(h);
  hd_call part = call_of(call, h, &g, n, rows);
  float loss[SAMPLES];
  int32_t label[SAMPLES];
  part.out[0] = loss;
  part.out_stride[0] = 1;
  if (h->loss == HD_HEAD_CROSS_ENTROPY) {
    for (int64_t i = 0; i < rows; i++)
      label[i] = weighted_sum_label(h, in_row(call, 1, n + i)[h->target]);
    part.in[1] = label;
    part.in_stride[1] = 1;
  }
  kernels->run[op_of(h)](&part);
  for (int64_t i = 0; i < rows; i++)
    out[i] = fmaf(h->share, loss[i], out[i]);
}

static void weighted_sum(const hd_call *call) {
  const hd_weighted_sum_geom *heads = &call->g->weighted_sum;
  for (int64_t n = 0; n < call->rows; n += SAMPLES) {
    const int64_t rows = call->rows - n < SAMPLES ? call->rows - n : SAMPLES;
    float sum[SAMPLES] = {0};
    for (int k = 0; k < heads->heads; k++)
      add_head(call, &heads->head[k], n, rows, sum);
    for (int64_t i = 0; i < rows; i++)
      *out_row(call, 0, n + i) = sum[i];
  }
}

/* x = w * x / divisor */
static void scale(const hd_call *call, const hd_loss_head *h, float *x) {
  const g16 share = g16_all(h->share), divisor = g16_all(call->divisor);
  for (int i = 0; i < h->count; i += 16)
    g16_store_some(x + i, g16_div(g16_mul(share, g16_load_some(x + i, h->count - i)), divisor), h->count - i);
}

static void entropy_dx(const hd_loss_head *h, const float *y, float target, float *dx) {
  const int32_t label = weighted_sum_label(h, target);
  const float m = largest(y, h->count), sum = sum_of_exp(y, h->count, m), smoothing = h->setting;
  const float share = smoothing > 0 ? smoothing / (float)h->count : 0;
  for (int i = 0; i < h->count; i += 16) {
    const g16 p = g16_div(g16_exp(g16_sub(g16_load_some(y + i, h->count - i), g16_all(m))), g16_all(sum));
    g16_store_some(dx + i, g16_sub(p, g16_all(share)), h->count - i);
  }
  if (label >= 0)
    dx[label] = hd__expf(y[label] - m) / sum - (smoothing > 0 ? fmaf(1 - smoothing, 1, share) : 1);
}

/* A sample without a label has no gradient. */
static void entropies_dx(const hd_call *call, const hd_loss_head *h) {
  for (int64_t n = 0; n < call->rows; n++) {
    const float target = in_row(call, 1, n)[h->target];
    float *dx = out_row(call, 0, n) + h->first;
    entropy_dx(h, in_row(call, 0, n) + h->first, target, dx);
    scale(call, h, dx);
    for (int i = 0; i < h->count && weighted_sum_label(h, target) < 0; i++)
      dx[i] = 0;
  }
}

static void weighted_sum_dx(const hd_call *call) {
  const hd_weighted_sum_geom *heads = &call->g->weighted_sum;
  for (int k = 0; k < heads->heads; k++) {
    const hd_loss_head *h = &heads->head[k];
    const hd_geom g = geom_of(h);
    hd_call part = call_of(call, h, &g, 0, call->rows);
    if (h->loss == HD_HEAD_CROSS_ENTROPY) {
      entropies_dx(call, h);
      continue;
    }
    part.out[0] = out_row(call, 0, 0) + h->first;
    part.out_stride[0] = call->out_stride[0];
    kernels->run[(hd_op)(op_of(h) + 1)](&part);
    for (int64_t n = 0; n < call->rows; n++)
      scale(call, h, out_row(call, 0, n) + h->first);
  }
}

void HD_SYM(weighted_sum_fill)(hd_kernels *table) {
  kernels = table;
  table->run[HD_OP_weighted_sum] = weighted_sum;
  table->run[HD_OP_weighted_sum_dx] = weighted_sum_dx;
}
