/* clip: y = x between min and max; without one of them there is no limit, not even the largest float. The gradient
 * reads x. */
#include <math.h>

#include "op/op.h"

static const hd_op_setting settings[] = {
    HD_SETTING("min", REAL, min, HD_TO_GEOM(clip.min), .low = -3.4028235e38, .high = 3.4028235e38,
               .default_value = -INFINITY, .help = "the smallest value"),
    HD_SETTING("max", REAL, max, HD_TO_GEOM(clip.max), .low = -3.4028235e38, .high = 3.4028235e38,
               .default_value = INFINITY, .help = "the largest value, at least `min`"),
    HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  if (s->attrs->min > s->attrs->max)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': clip expects min of at most max, found min %g and max %g; swap them", s->layer,
                    (double)s->attrs->min, (double)s->attrs->max);
  return hd__shapes_same(s);
}

static int corners(double at[HD_OP_CORNERS], const hd_geom *g) {
  at[0] = (double)g->clip.min;
  at[1] = (double)g->clip.max;
  return 2;
}

/* Limits that no level of the tests' inputs hits. */
static const hd_geom samples[] = {{.ci = 1, .clip = {-0.513f, 0.277f}},
                                  {.ci = 19, .clip = {0, 6}},
                                  {.ci = 3, .hi = 4, .wi = 5, .clip = {-3.4e38f, 0.3137f}},
                                  {.ci = 17, .hi = 3, .wi = 3, .clip = {-0.1071f, 3.4e38f}},
                                  {.ci = 3, .hi = 2, .wi = 7, .clip = {-INFINITY, 0.2731f}},
                                  {.ci = 18, .clip = {-0.3103f, INFINITY}},
                                  {.ci = 1, .hi = 6, .wi = 7, .clip = {0.1303f, 0.1303f}}};

const hd_op_rule hd__rule_clip = {
    .fewest = 1,
    .most = 1,
    .torch = "torch.clamp(x, min, max)",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_clip_dx, {HD_ARG_DY, HD_ARG_X}},
    .elementwise = true,
    .in_place = true,
    .corners = corners,
    .flops = {2, 2},
    HD_SAMPLES(samples),
};
