/* relu6: y = x between 0 and 6. The gradient reads y. */
#include "op/op.h"

static int corners(double at[HD_OP_CORNERS], const hd_geom *g) {
  at[0] = 0;
  at[1] = 6;
  return 2;
}

const hd_op_rule hd__rule_relu6 = {
    HD_ELEMENTWISE(relu6, HD_ARG_Y), .torch = "nn.ReLU6", .corners = corners, .flops = {2, 2},
    HD_SAMPLES(hd__samples_each),
};
