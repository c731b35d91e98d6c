/* softplus: y = log(1 + exp(beta * x)) / beta. The gradient reads x. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("beta", REAL, beta, HD_TO_GEOM(softplus.beta), .low = 1e-3,
                                                    .high = 1e6, .default_value = 1, .help = "how sharp the bend is"),
                                         HD_SETTING("threshold", REAL, threshold, HD_TO_GEOM(softplus.threshold),
                                                    .low = 0, .high = 1e6, .default_value = 20,
                                                    .help = "above it beta * x passes as it is"),
                                         HD_SETTINGS_END};

/* The function jumps there, by a little. */
static int corners(double at[HD_OP_CORNERS], const hd_geom *g) {
  at[0] = (double)g->softplus.threshold / (double)g->softplus.beta;
  return 1;
}

static const hd_geom samples[] = {{.ci = 1, .softplus = {.beta = 0.3f, .threshold = 20}},
                                  {.ci = 19, .softplus = {.beta = 1, .threshold = 20}},
                                  {.ci = 3, .hi = 4, .wi = 5, .softplus = {.beta = 5, .threshold = 3}},
                                  {.ci = 17, .hi = 3, .wi = 3, .softplus = {.beta = 1, .threshold = 20}},
                                  {.ci = 1, .hi = 6, .wi = 7, .softplus = {.beta = 2, .threshold = 0}}};

const hd_op_rule hd__rule_softplus = {
    HD_ELEMENTWISE(softplus, HD_ARG_X),
    .torch = "nn.Softplus",
    .settings = settings,
    .corners = corners,
    .flops = {6, 5},
    HD_SAMPLES(samples),
};
