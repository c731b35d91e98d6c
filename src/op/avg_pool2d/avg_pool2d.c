/* avg_pool2d: the mean of each window of an image; and its gradient.
 *
 * With count_include_pad (PyTorch's default) the padding's zeros count in the divisor, else a window is divided by the
 * number of its pixels. */
#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_POOL_SETTINGS,
    HD_SETTING("count_include_pad", FLAG, count_include_pad, HD_TO_GEOM(avg_pool2d.count_include_pad), .high = 1,
               .default_value = 1, .help = "whether padding counts as pixels of the mean"),
    HD_SETTINGS_END};

static const hd_geom samples[] = {
    {.ci = 1},
    {.ci = 3, .hi = 7, .wi = 6, .window = {.kh = 2, .kw = 2, .sh = 2, .sw = 2}},
    {.ci = 17, .hi = 8, .wi = 9, .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1}},
    {.ci = 17,
     .hi = 8,
     .wi = 9,
     .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1},
     .avg_pool2d = {.count_include_pad = 1}},
    {.ci = 5, .hi = 6, .wi = 6, .window = {.kh = 3, .kw = 2, .sh = 1, .sw = 2, .pw = 1}},
    {.ci = 5,
     .hi = 6,
     .wi = 6,
     .window = {.kh = 3, .kw = 2, .sh = 1, .sw = 2, .pw = 1},
     .avg_pool2d = {.count_include_pad = 1}},
    {.ci = 18,
     .hi = 6,
     .wi = 7,
     .window = {.kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .ceil_mode = 1},
     .avg_pool2d = {.count_include_pad = 1}},
};

const hd_op_rule hd__rule_avg_pool2d = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.AvgPool2d",
    .settings = settings,
    .shapes = hd__shapes_pool,
    .dx = {HD_OP_avg_pool2d_dx, {HD_ARG_DY}},
    .flops_of = hd__flops_mean,
    HD_SAMPLES(samples),
};
