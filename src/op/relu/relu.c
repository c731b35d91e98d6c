/* relu: y = x where x is positive, else 0. The gradient reads y, so that the memory of x can be reused. */
#include "op/op.h"

const hd_op_rule hd__rule_relu = {
    HD_ELEMENTWISE(relu, HD_ARG_Y),
    .torch = "nn.ReLU",
    .flops = {1, 1},
    HD_SAMPLES(hd__samples_each),
};
