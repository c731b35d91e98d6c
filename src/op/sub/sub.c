/* sub: y = a - b, elementwise; a value of one pixel or of one channel is spread over the other's. */
#include "op/op.h"

const hd_op_rule hd__rule_sub = {
    HD_BINARY(sub),
    .torch = "a - b",
    .dx = {HD_OP_sub_dx, {HD_ARG_DY}},
};
