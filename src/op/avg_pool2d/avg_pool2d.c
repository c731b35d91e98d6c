/* avg_pool2d: the mean of each window of an image; and its gradient.
 *
 * With count_include_pad (PyTorch's default) the padding's zeros count in the divisor, else a window is divided by the
 * number of its pixels. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("kernel", SIDES, kernel, .low = 1, .high = 1024, .required = true),
                                         HD_SETTING("stride", SIDES, stride, .low = 1, .high = 1024),
                                         HD_SETTING("padding", SIDES, padding, .low = 0, .high = 1024),
                                         HD_SETTING("count_include_pad", FLAG, count_include_pad, .high = 1),
                                         HD_SETTINGS_END};

/* An addition for each position and a division; the gradient has the same. */
static int64_t flops(const hd_geom *g, hd_op_role role) { return (int64_t)g->co * g->ho * g->wo * (g->kh * g->kw + 1); }

static const hd_geom samples[] = {
    {.ci = 1},
    {.ci = 3, .hi = 7, .wi = 6, .kh = 2, .kw = 2, .sh = 2, .sw = 2},
    {.ci = 17, .hi = 8, .wi = 9, .kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1},
    {.ci = 17, .hi = 8, .wi = 9, .kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1, .count_include_pad = 1},
    {.ci = 5, .hi = 6, .wi = 6, .kh = 3, .kw = 2, .sh = 1, .sw = 2, .pw = 1},
    {.ci = 5, .hi = 6, .wi = 6, .kh = 3, .kw = 2, .sh = 1, .sw = 2, .pw = 1, .count_include_pad = 1},
};

const hd_op_rule hd__rule_avg_pool2d = {
    .fewest = 1,
    .most = 1,
    .settings = settings,
    .shapes = hd__shapes_pool,
    .dx = {HD_OP_avg_pool2d_dx, {HD_ARG_DY}},
    .flops_of = flops,
    HD_SAMPLES(samples),
};
