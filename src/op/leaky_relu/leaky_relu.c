/* leaky_relu: y = x where x is positive, negative_slope * x elsewhere. The gradient reads y. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("negative_slope", REAL, negative_slope,
                                                    HD_TO_GEOM(leaky_relu.negative_slope), .low = 0, .high = 1e6,
                                                    .default_value = 0.01, .help = "factor of negative values"),
                                         HD_SETTINGS_END};

static const hd_geom samples[] = {{.ci = 1, .leaky_relu = {.negative_slope = 0.3f}},
                                  {.ci = 19, .leaky_relu = {.negative_slope = 0.01f}},
                                  {.ci = 3, .hi = 4, .wi = 5, .leaky_relu = {.negative_slope = 0.3f}},
                                  {.ci = 17, .hi = 3, .wi = 3, .leaky_relu = {.negative_slope = 0.01f}},
                                  {.ci = 1, .hi = 6, .wi = 7, .leaky_relu = {.negative_slope = 0}}};

const hd_op_rule hd__rule_leaky_relu = {
    HD_ELEMENTWISE(leaky_relu, HD_ARG_Y),
    .torch = "nn.LeakyReLU",
    .settings = settings,
    .flops = {2, 2},
    HD_SAMPLES(samples),
};
