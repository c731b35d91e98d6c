/* weighted_sum: the loss of a network with several heads. Model files state it as a list of losses, one for each head
 * (graph/model_heads.c). The mean is over samples: what a head divides by is part of its weight. */
#include "op/op.h"

static const hd_geom samples[] = {
    {.ci = 3, .weighted_sum = {2, {{HD_HEAD_CROSS_ENTROPY, 0, 2, 0, 1, 0}, {HD_HEAD_MSE, 2, 1, 1, 0.5f, 0}}}},
    {.ci = 21,
     .weighted_sum = {2, {{HD_HEAD_HUBER, 0, 4, 0, 0.25f, 0.5f}, {HD_HEAD_CROSS_ENTROPY, 4, 17, 4, 0.3f, 0.1f}}}},
    {.ci = 40,
     .weighted_sum = {3,
                      {{HD_HEAD_BCE_WITH_LOGITS, 0, 19, 0, 1, 0},
                       {HD_HEAD_L1, 19, 20, 19, 0.1f, 0},
                       {HD_HEAD_MSE, 39, 1, 39, 2, 0}}}}};

const hd_op_rule hd__rule_weighted_sum = {
    .loss = true,
    .several = true,
    .shapes = hd__shapes_loss,
    .dx = {HD_OP_weighted_sum_dx, {HD_ARG_X, HD_ARG_W, HD_ARG_B}},
    .flops = {5, 5},
    .torch = "a list of losses, one for each head",
    HD_SAMPLES(samples),
};
