/* gelu: x times the share of the normal distribution below x. The gradient reads x. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("approximate", CHOICE, approximate, HD_TO_GEOM(gelu.approximate),
                                                    .choices = {"none", "tanh"},
                                                    .help = "the form: with erf, or an approximation with tanh"),
                                         HD_SETTINGS_END};

static const hd_geom samples[] = {{.ci = 1},
                                  {.ci = 1, .gelu = {.approximate = 1}},
                                  {.ci = 19},
                                  {.ci = 19, .gelu = {.approximate = 1}},
                                  {.ci = 3, .hi = 4, .wi = 5},
                                  {.ci = 17, .hi = 3, .wi = 3, .gelu = {.approximate = 1}}};

const hd_op_rule hd__rule_gelu = {
    HD_ELEMENTWISE(gelu, HD_ARG_X), .torch = "nn.GELU", .settings = settings, .flops = {4, 9}, HD_SAMPLES(samples),
};
