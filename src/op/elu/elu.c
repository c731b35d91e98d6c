/* elu: y = x where x is positive, alpha * (exp(x) - 1) elsewhere. The gradient reads y. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("alpha", REAL, alpha, HD_TO_GEOM(elu.alpha), .low = 0, .high = 1e6,
                                                    .default_value = 1, .help = "factor of exp(x) - 1"),
                                         HD_SETTINGS_END};

static const hd_geom samples[] = {{.ci = 1, .elu = {.alpha = 0.3f}},
                                  {.ci = 19, .elu = {.alpha = 1}},
                                  {.ci = 3, .hi = 4, .wi = 5, .elu = {.alpha = 1}},
                                  {.ci = 17, .hi = 3, .wi = 3, .elu = {.alpha = 2}},
                                  {.ci = 1, .hi = 6, .wi = 7, .elu = {.alpha = 0}}};

const hd_op_rule hd__rule_elu = {
    HD_ELEMENTWISE(elu, HD_ARG_Y), .torch = "nn.ELU", .settings = settings, .flops = {5, 3}, HD_SAMPLES(samples),
};
