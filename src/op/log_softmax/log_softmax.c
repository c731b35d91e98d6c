/* log_softmax: over a flat value, or over the channels of each pixel of an image; the gradient reads y.
 *
 * A classifier does not need it at the end: cross_entropy reads scores and includes it. */
#include "op/op.h"

const hd_op_rule hd__rule_log_softmax = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.LogSoftmax(1)",
    .shapes = hd__shapes_same,
    .dx = {HD_OP_log_softmax_dx, {HD_ARG_DY, HD_ARG_Y}},
    .in_place = true,
    .flops = {6, 4}, /* maximum, difference, exponential, sum, two differences; sum, exponential, multiply-add */
    HD_SAMPLES(hd__samples_softmax),
};
