/* selu: y = scale * x where x is positive, scale * alpha * (exp(x) - 1) elsewhere, the constants being those of
 * Klambauer et al., "Self-normalizing neural networks", 2017. The gradient reads y. */
#include "op/op.h"

const hd_op_rule hd__rule_selu = {
    HD_ELEMENTWISE(selu, HD_ARG_Y),
    .torch = "nn.SELU",
    .flops = {5, 3},
    HD_SAMPLES(hd__samples_each),
};
