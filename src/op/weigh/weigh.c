/* weigh: the losses of samples, and their gradients, times the samples' weights (plan/pass_weigh.c). */
#include "op/op.h"

static const hd_geom samples[] = {{.ci = 1, .weigh = {.at = 1}},
                                  {.ci = 19, .weigh = {.at = 1}},
                                  {.ci = 3, .hi = 4, .wi = 5, .weigh = {.at = 3}},
                                  {.ci = 17, .hi = 3, .wi = 3, .weigh = {.at = 17}},
                                  {.ci = 64, .weigh = {.at = 2}}};

const hd_op_rule hd__rule_weigh = {.in_place = true, .flops = {1}, HD_SAMPLES(samples)};
