/* prelu: y = x where x is positive, weight * x elsewhere; He et al., "Delving deep into rectifiers", 2015. The weight
 * is trained from 0.25. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("num_parameters", INT, num_parameters,
                                                    HD_TO_GEOM(prelu.num_parameters), .low = 1, .high = 1 << 20,
                                                    .default_value = 1, .help = "weights: 1, or one for each channel"),
                                         HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const int32_t weights = s->attrs->num_parameters, channels = s->x[0].dim[0];
  if (weights != 1 && weights != channels)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': prelu expects num_parameters to be 1 or its %d channels, found %d; use one of them",
                    s->layer, channels, weights);
  if (weights != 1 && s->order[0].rank == 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': prelu with a weight for each channel expects an image, found a flattened one; put it "
                    "before flatten",
                    s->layer);
  const hd_shape shape = {1, {weights}}, in_memory = {4, {weights, 1, 1, 1}};
  hd__shapes_param(s, "weight", &shape, &in_memory)->init = HD_INIT_QUARTER;
  return hd__shapes_same(s);
}

static const hd_geom samples[] = {{.ci = 1, .prelu = {.num_parameters = 1}},
                                  {.ci = 19, .prelu = {.num_parameters = 19}},
                                  {.ci = 3, .hi = 4, .wi = 5, .prelu = {.num_parameters = 3}},
                                  {.ci = 17, .hi = 3, .wi = 3, .prelu = {.num_parameters = 1}},
                                  {.ci = 34, .hi = 2, .wi = 3, .prelu = {.num_parameters = 34}}};

static int corners(double at[HD_OP_CORNERS], const hd_geom *g) {
  at[0] = 0;
  return 1;
}

const hd_op_rule hd__rule_prelu = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.PReLU",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_prelu_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X}},
    .dw = {HD_OP_prelu_dw, {HD_ARG_X, HD_ARG_DY}},
    .corners = corners,
    .flops = {2, 2, 3},
    HD_SAMPLES(samples),
};
