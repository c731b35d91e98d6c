/* channel_norm: y = (x - mean) / sqrt(var + eps) * weight + bias over the channels of each place, with a weight and a
 * bias for each channel, as PyTorch's LayerNorm of the last dimension of places by channels; and its gradients, which
 * compute mean and variance again from x. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_EPS_SETTING, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 3)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': channel_norm expects channels for each place, found %s; use layer_norm", s->layer,
                    hd__shape_text(text, sizeof text, x));
  const hd_shape shape = {1, {x->dim[0]}}, in_memory = {4, {x->dim[0], 1, 1, 1}};
  hd__shapes_param(s, "weight", &shape, &in_memory)->init = HD_INIT_ONE;
  hd__shapes_param(s, "bias", &shape, &in_memory)->init = HD_INIT_ZERO;
  return hd__shapes_same(s);
}

static const hd_geom samples[] = {{.ci = 2, .hi = 1, .wi = 3, .norm = {.eps = 1e-5f}},
                                  {.ci = 16, .hi = 2, .wi = 2, .norm = {.eps = 1e-5f}},
                                  {.ci = 45, .hi = 1, .wi = 4, .norm = {.eps = 1e-5f}},
                                  {.ci = 128, .hi = 1, .wi = 2, .norm = {.eps = 1e-5f}}};

const hd_op_rule hd__rule_channel_norm = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.LayerNorm(C)",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_channel_norm_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X}},
    .dw = {HD_OP_channel_norm_dw, {HD_ARG_X, HD_ARG_DY}},
    .flops = {8, 14, 9}, /* as layer_norm */
    HD_SAMPLES(samples),
};
