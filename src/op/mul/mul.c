/* mul: y = a * b, elementwise; a value of one pixel or of one channel is spread over the other's. */
#include "op/op.h"

const hd_op_rule hd__rule_mul = {
    HD_BINARY(mul),
    .torch = "a * b",
    .dx = {HD_OP_mul_dx, {HD_ARG_DY, HD_ARG_X, HD_ARG_W}},
};
