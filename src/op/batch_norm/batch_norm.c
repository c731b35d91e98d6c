/* batch_norm: y = (x - mean) / sqrt(var + eps) * weight + bias for each channel, with mean and variance of the batch in
 * training and running ones in evaluation.
 *
 * In training a pass (plan/plan_batch.c) puts batch_stats before it, whose outputs it reads in place of the running
 * statistics. The gradients of weight and bias are also the sums that batch_norm_dx reads. With `stats: shard` the pass
 * replaces it by shard_norm, which has the mean and variance of the samples of its shard: no barrier is needed, so a
 * thread takes its shards through the whole network in one phase. The derivative of mean and variance is inside
 * batch_norm_dx and shard_norm_dx. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_EPS_SETTING,
                                         HD_SETTING("momentum", REAL, momentum, .low = 0, .high = 1,
                                                    .default_value = 0.1,
                                                    .help = "weight of the new batch in the running statistics"),
                                         HD_SETTING("stats", CHOICE, shard_stats, .choices = {"batch", "shard"},
                                                    .help = "which mean and variance training uses"),
                                         HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  static const char *const suffix[] = {"weight", "bias", "running_mean", "running_var"};
  char text[HD_SHAPE_TEXT_BYTES];
  if (s->x[0].rank != 1 && s->x[0].rank != 3)
    return hd__fail(
        s->ctx, HD_E_SHAPE,
        "layer '%s': batch_norm expects channels or channels x height x width, found %s; add a flatten before it",
        s->layer, hd__shape_text(text, sizeof text, &s->x[0]));
  const hd_shape channels = {1, {s->x[0].dim[0]}}, *image = &s->order[0];
  hd_shape in_memory = {4, {channels.dim[0], 1, 1, 1}};
  if (image->rank == 3) /* each element of a flattened image is a channel: the order of memory is the image's */
    in_memory = (hd_shape){4, {1, image->dim[0], image->dim[1], image->dim[2]}};
  for (int i = 0; i < 4; i++) {
    hd_op_param *param = hd__shapes_param(s, suffix[i], &channels, &in_memory);
    param->init = i == 0 || i == 3 ? HD_INIT_ONE : HD_INIT_ZERO;
    param->running = i >= 2;
  }
  return hd__shapes_same(s);
}

static const hd_geom samples[] = {{.ci = 1, .norm = {.eps = 1e-5f}},
                                  {.ci = 16, .norm = {.eps = 1e-5f}},
                                  {.ci = 3, .hi = 5, .wi = 4, .norm = {.eps = 1e-5f}},
                                  {.ci = 17, .hi = 3, .wi = 3, .norm = {.eps = 1e-5f}},
                                  {.ci = 40, .hi = 2, .wi = 7, .norm = {.eps = 1e-5f}},
                                  {.ci = 64, .norm = {.eps = 1e-5f}}};

const hd_op_rule hd__rule_batch_norm = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.BatchNorm1d, nn.BatchNorm2d",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_batch_norm_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X, HD_ARG_IN3, HD_ARG_IN4, HD_ARG_DW, HD_ARG_DB}},
    .dw = {HD_OP_batch_norm_dw, {HD_ARG_X, HD_ARG_DY, HD_ARG_IN3, HD_ARG_IN4}},
    .flops = {3, 6, 5},
    HD_SAMPLES(samples),
};

const hd_op_rule hd__rule_batch_stats = {.flops = {4}, HD_SAMPLES(samples)};

const hd_op_rule hd__rule_shard_norm = {
    .shapes = shapes,
    .dx = {HD_OP_shard_norm_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X, HD_ARG_OUT1, HD_ARG_OUT2}},
    .dw = {HD_OP_batch_norm_dw, {HD_ARG_X, HD_ARG_DY, HD_ARG_OUT1, HD_ARG_OUT2}},
    .flops = {7},
    HD_SAMPLES(samples),
};

const hd_op_rule hd__rule_shard_norm_dx = {.flops = {11}, HD_SAMPLES(samples)};
