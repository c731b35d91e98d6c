/* layer_norm: y = (x - mean) / sqrt(var + eps) * weight + bias over all elements of a sample, with a weight and a bias
 * for each, as PyTorch's LayerNorm of a whole sample's shape; and its gradients, which compute mean and variance again
 * from x. The sums run in the order of memory. */
#include "op/op.h"

static const hd_op_setting settings[] = {HD_EPS_SETTING, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  hd_shape shape = s->x[0], image = s->order[0].rank == 3 ? s->order[0] : shape,
           in_memory = {4, {1, image.dim[0], 1, 1}};
  if (image.rank == 3) {
    in_memory.dim[2] = image.dim[1];
    in_memory.dim[3] = image.dim[2];
  }
  hd__shapes_param(s, "weight", &shape, &in_memory)->init = HD_INIT_ONE;
  hd__shapes_param(s, "bias", &shape, &in_memory)->init = HD_INIT_ZERO;
  return hd__shapes_same(s);
}

static const hd_geom samples[] = {{.ci = 2, .norm = {.eps = 1e-5f}},
                                  {.ci = 16, .norm = {.eps = 1e-5f}},
                                  {.ci = 45, .norm = {.eps = 1e-5f}},
                                  {.ci = 3, .hi = 4, .wi = 5, .norm = {.eps = 1e-5f}},
                                  {.ci = 17, .hi = 1, .wi = 3, .norm = {.eps = 1e-5f}},
                                  {.ci = 1, .hi = 2, .wi = 7, .norm = {.eps = 1e-5f}}};

const hd_op_rule hd__rule_layer_norm = {
    .fewest = 1,
    .most = 1,
    .torch = "nn.LayerNorm",
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_layer_norm_dx, {HD_ARG_DY, HD_ARG_W, HD_ARG_X}},
    .dw = {HD_OP_layer_norm_dw, {HD_ARG_X, HD_ARG_DY}},
    .flops = {8, 14, 9}, /* four for the moments, two for the normalised value, a multiply-add; in dx two more sums */
    HD_SAMPLES(samples),
};
