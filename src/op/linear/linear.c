/* linear: y = x w^T + b over flat values, with a ReLU if a pass has fused it; and its gradients.
 *
 * If the input is a flattened image in the image's memory order, the weight's home order follows the memory; files keep
 * PyTorch's order. */
#include <limits.h>

#include "op/op.h"

static const hd_op_setting settings[] = {HD_SETTING("out", INT, out, .low = 1, .high = 1 << 20, .required = true),
                                         HD_SETTING("bias", FLAG, bias, .high = 1), HD_SHARE_SETTING, HD_SETTINGS_END};

static hd_status shapes(hd_op_shapes *s) {
  const hd_shape *x = &s->x[0], *order = &s->order[0];
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->rank != 1)
    return hd__fail(s->ctx, HD_E_SHAPE,
                    "layer '%s': linear expects a flat input, found %s; put a flatten layer before it", s->layer,
                    hd__shape_text(text, sizeof text, x));
  s->geom = hd__geom_of_shape(x);
  s->geom.co = s->attrs->out;
  const hd_geom *g = &s->geom;
  if ((int64_t)g->ci * g->co > INT_MAX / 8)
    return hd__fail(s->ctx, HD_E_SHAPE, "layer '%s': expected at most %d weights, found %d x %d; use fewer outputs",
                    s->layer, INT_MAX / 8, g->co, g->ci);
  hd_shape home = {4, {g->co, g->ci, 1, 1}};
  if (order->rank == 3)
    home = (hd_shape){4, {g->co, order->dim[0], order->dim[1], order->dim[2]}};
  hd__shapes_param(s, "weight", &(hd_shape){2, {g->co, g->ci}}, &home);
  if (s->attrs->bias)
    hd__shapes_param(s, "bias", &(hd_shape){1, {g->co}}, &(hd_shape){4, {g->co, 1, 1, 1}});
  for (int i = 0; i < s->params; i++) {
    s->param[i].fan_in = g->ci;
    s->param[i].shared = true;
  }
  s->y = (hd_shape){1, {g->co}};
  return HD_OK;
}

static int64_t macs(const hd_geom *g) { return (int64_t)g->ci * g->co; }
static int64_t flops(const hd_geom *g, hd_op_role role) { return 2 * macs(g); }

static const hd_geom samples[] = {{.ci = 1, .co = 1},
                                  {.ci = 17, .co = 3},
                                  {.ci = 16, .co = 16, .relu = 1},
                                  {.ci = 33, .co = 10},
                                  {.ci = 100, .co = 35, .relu = 1},
                                  {.ci = 15, .co = 64}};

const hd_op_rule hd__rule_linear = {
    .fewest = 1,
    .most = 1,
    .settings = settings,
    .shapes = shapes,
    .dx = {HD_OP_linear_dx, {HD_ARG_DY, HD_ARG_W}},
    .dw = {HD_OP_linear_dw, {HD_ARG_X, HD_ARG_DY}},
    .macs = macs,
    .flops_of = flops,
    HD_SAMPLES(samples),
};
