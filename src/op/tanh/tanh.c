/* tanh: the gradient reads y. */
#include "op/op.h"

const hd_op_rule hd__rule_tanh = {
    HD_ELEMENTWISE(tanh, HD_ARG_Y),
    .torch = "nn.Tanh",
    .flops = {1, 3},
    HD_SAMPLES(hd__samples_each),
};
