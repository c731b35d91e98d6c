/* adaptive_max_pool2d: the maximum of each of as many windows as the output has pixels. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("size", SIDES, size, .low = 1, .high = 16384, .required = true,
                                                    .help = "height and width of the output"),
                                         HD_SETTINGS_END};

static int64_t flops(const hd_geom *g, hd_op_role role) { return (int64_t)g->ci * g->hi * g->wi; }

const hd_op_rule hd__rule_adaptive_max_pool2d = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.AdaptiveMaxPool2d",
    .settings = settings,
    .shapes = hd__shapes_adaptive,
    .dx = {HD_OP_adaptive_max_pool2d_dx, {HD_ARG_DY, HD_ARG_X}},
    .flops_of = flops,
    .maximum = true,
    HD_SAMPLES(hd__samples_adaptive),
};
