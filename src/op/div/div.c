/* div: y = a / b, elementwise; a value of one pixel or of one channel is spread over the other's. */
#include "op/op.h"

const hd_op_rule hd__rule_div = {
    HD_BINARY(div),
    .torch = "a / b",
    .dx = {HD_OP_div_dx, {HD_ARG_DY, HD_ARG_X, HD_ARG_W}},
};
