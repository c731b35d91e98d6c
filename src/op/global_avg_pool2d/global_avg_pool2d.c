/* global_avg_pool2d: the mean of each channel, avg_pool2d with one window as large as the image. */
#include "op/op.h"

static hd_status shapes(hd_op_shapes *s) {
  hd_attrs attrs = *s->attrs;
  const hd_attrs *given = s->attrs;
  for (int side = 0; side < 2; side++)
    attrs.kernel[side] = s->x[0].rank == 3 ? s->x[0].dim[1 + side] : 1;
  s->attrs = &attrs;
  hd_status status = hd__shapes_pool(s);
  s->attrs = given;
  s->geom.avg_pool2d.count_include_pad = 1;
  return status;
}

static const hd_geom samples[] = {{.ci = 1},
                                  {.ci = 19},
                                  {.ci = 3, .hi = 4, .wi = 5, .window = {.kh = 4, .kw = 5}},
                                  {.ci = 17, .hi = 3, .wi = 3, .window = {.kh = 3, .kw = 3}},
                                  {.ci = 1, .hi = 6, .wi = 7, .window = {.kh = 6, .kw = 7}}};

const hd_op_rule hd__rule_global_avg_pool2d = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.AdaptiveAvgPool2d(1)",
    .shapes = shapes,
    .dx = {HD_OP_avg_pool2d_dx, {HD_ARG_DY}},
    .flops_of = hd__flops_mean,
    HD_SAMPLES(samples),
};
