/* scale: y = factor * x, for example to give the loss smaller or larger scores than a layer computes. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("factor", REAL, factor, HD_TO_GEOM(scale.factor), .low = -1e6,
                                                    .high = 1e6, .required = true, .help = "factor for every element"),
                                         HD_SETTINGS_END};

static const hd_geom samples[] = {{.ci = 1, .scale = {.factor = -2.5f}},
                                  {.ci = 19, .scale = {.factor = 1.0f / 9}},
                                  {.ci = 3, .hi = 4, .wi = 5, .scale = {.factor = 0.3f}},
                                  {.ci = 17, .hi = 3, .wi = 3, .scale = {.factor = 100}},
                                  {.ci = 1, .hi = 6, .wi = 7, .scale = {.factor = 1}}};

const hd_op_rule hd__rule_scale = {
    HD_ELEMENTWISE(scale, HD_ARG_Y), .torch = "x * factor", .settings = settings, .flops = {1, 1}, HD_SAMPLES(samples),
};
