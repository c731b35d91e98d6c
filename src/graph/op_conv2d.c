/* conv2d: a convolution over images, with optional groups of channels, and with a max pool and a ReLU if a pass has
 * fused them; and its gradients.
 *
 * y = pool(b + sum over ky, kx, ci of x * w). The order of the gradients' sums follows the windows of the pool, so
 * the pool is part of the operation: without one a window is one pixel. See docs/determinism.md for the chains. */
#include <limits.h>

#include "graph/gradient.h"

static hd_status need_image(hd_ctx *ctx, const hd_node *node, const hd_value *x) {
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->shape.rank == 3)
    return HD_OK;
  return hd__fail(ctx, HD_E_SHAPE,
                  "layer '%s': conv2d expects an image (channels x height x width), found %s; put it before flatten",
                  node->name, hd__shape_text(text, sizeof text, &x->shape));
}

static hd_status check_groups(hd_ctx *ctx, const hd_node *node, int32_t channels) {
  const hd_attrs *a = &node->attrs;
  if (channels % a->groups == 0 && a->out % a->groups == 0)
    return HD_OK;
  return hd__fail(ctx, HD_E_SHAPE,
                  "layer '%s': conv2d expects groups that divide both its %d input channels and its %d outputs, found "
                  "groups %d; use a common divisor",
                  node->name, channels, a->out, a->groups);
}

static hd_status make_params(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  hd_shape weight = {4, {g->co, g->ci / g->groups, g->kh, g->kw}}, bias = {1, {g->co}};
  int32_t fan_in = g->ci / g->groups * g->kh * g->kw;
  HD_TRY(hd__op_param(graph, ctx, node, 1, "weight", &weight, &weight, fan_in));
  if (node->attrs.bias)
    HD_TRY(hd__op_param(graph, ctx, node, 2, "bias", &bias, &(hd_shape){4, {g->co, 1, 1, 1}}, fan_in));
  return HD_OK;
}

hd_status hd__op_conv2d_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_value *x = &graph->values[node->in[0]];
  const hd_attrs *a = &node->attrs;
  HD_TRY(need_image(ctx, node, x));
  HD_TRY(check_groups(ctx, node, x->shape.dim[0]));
  node->geom = (hd_geom){.ci = x->shape.dim[0],
                         .hi = x->shape.dim[1],
                         .wi = x->shape.dim[2],
                         .co = a->out,
                         .kh = a->kernel[0],
                         .kw = a->kernel[1],
                         .sh = a->stride[0] ? a->stride[0] : 1,
                         .sw = a->stride[1] ? a->stride[1] : 1,
                         .ph = a->padding[0],
                         .pw = a->padding[1],
                         .groups = a->groups,
                         .pool = 1};
  char text[HD_SHAPE_TEXT_BYTES];
  if (!hd__geom_finish(&node->geom))
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': a %dx%d kernel expects an input at least that large, found %s with padding %d; use a "
                    "smaller kernel or more padding",
                    node->name, a->kernel[0], a->kernel[1], hd__shape_text(text, sizeof text, &x->shape),
                    a->padding[0]);
  int32_t group_channels = node->geom.ci / a->groups;
  if ((int64_t)a->out * group_channels * a->kernel[0] * a->kernel[1] > INT_MAX / 8)
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': expected at most %d weights, found %d x %d x %d x %d; use fewer channels", node->name,
                    INT_MAX / 8, a->out, group_channels, a->kernel[0], a->kernel[1]);
  HD_TRY(make_params(graph, ctx, node));
  const hd_geom *g = &node->geom;
  return hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &(hd_shape){3, {g->co, g->ho, g->wo}});
}

/* With a fused ReLU the gradient passes where y > 0. Adds a node for that mask, so that convolution kernels read masked
 * dy. */
static hd_status masked_gradient(int *dy, hd_grad *grad, const hd_node *node) {
  *dy = hd__grad_of(grad, node->out[0]);
  if (!node->geom.relu)
    return HD_OK;
  hd_node *mask;
  HD_TRY(hd__grad_node(&mask, grad, HD_OP_relu_dx, node, (int[]){*dy, node->out[0]}, 2));
  *dy = mask->out[0];
  return HD_OK;
}

hd_status hd__op_conv2d_grad(hd_grad *grad, const hd_node *node) {
  int dy;
  HD_TRY(masked_gradient(&dy, grad, node));
  hd_node *dw, *dx;
  HD_TRY(hd__grad_node(&dw, grad, HD_OP_conv2d_dw, node, (int[]){node->in[0], dy, node->out[1]}, 3));
  hd__grad_note_param(grad, node->in[1], dw->out[0]);
  if (node->in[2] >= 0)
    hd__grad_note_param(grad, node->in[2], dw->out[1]);
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_conv2d_dx, node, (int[]){dy, node->in[1], node->out[1]}, 3));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

int64_t hd__op_conv2d_cost(const hd_geom *g) {
  return (int64_t)g->co * g->ho * g->wo * (g->ci / g->groups) * g->kh * g->kw;
}

int hd__op_conv2d_sample(hd_geom *g, int index) {
  static const hd_geom list[] = {
      {.ci = 1, .hi = 1, .wi = 1, .co = 1, .kh = 1, .kw = 1, .sh = 1, .sw = 1, .pool = 1},
      {.ci = 1, .hi = 8, .wi = 8, .co = 4, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .pool = 2, .relu = 1},
      {.ci = 3, .hi = 7, .wi = 6, .co = 5, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .ph = 1, .pw = 1, .pool = 1},
      {.ci = 17, .hi = 5, .wi = 5, .co = 18, .kh = 3, .kw = 2, .sh = 2, .sw = 1, .pw = 1, .pool = 1, .relu = 1},
      {.ci = 4, .hi = 9, .wi = 9, .co = 19, .kh = 2, .kw = 2, .sh = 1, .sw = 1, .pool = 3},
      {.ci = 6, .hi = 6, .wi = 5, .co = 4, .kh = 3, .kw = 3, .sh = 1, .sw = 2, .ph = 1, .groups = 2, .pool = 1},
      {.ci = 5,
       .hi = 7,
       .wi = 7,
       .co = 5,
       .kh = 3,
       .kw = 3,
       .sh = 2,
       .sw = 1,
       .pw = 1,
       .groups = 5,
       .pool = 1,
       .relu = 1},
      {.ci = 3, .hi = 4, .wi = 5, .co = 6, .kh = 2, .kw = 3, .sh = 1, .sw = 1, .ph = 1, .groups = 3, .pool = 1},
      {.ci = 1, .hi = 7, .wi = 6, .co = 35, .kh = 2, .kw = 2, .sh = 1, .sw = 1, .ph = 1, .pool = 3},
      {.ci = 2, .hi = 5, .wi = 4, .co = 3, .kh = 1, .kw = 1, .sh = 1, .sw = 1, .pool = 2},
      {.ci = 16, .hi = 7, .wi = 6, .co = 18, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .pool = 2, .relu = 1},
      {.ci = 17, .hi = 4, .wi = 5, .co = 16, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .ph = 1, .pw = 2, .pool = 1},
      {.ci = 16, .hi = 1, .wi = 1, .co = 35, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .ph = 3, .pw = 1, .pool = 1},
      {.ci = 32, .hi = 4, .wi = 3, .co = 34, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .ph = 1, .groups = 2, .pool = 1},
      {.ci = 2, .hi = 11, .wi = 10, .co = 3, .kh = 5, .kw = 5, .sh = 2, .sw = 2, .ph = 2, .pw = 2, .pool = 2},
  };
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = list[index];
  return hd__geom_finish(g);
}

hd_status hd__op_conv2d_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &(hd_shape){3, {g->ci, g->hi, g->wi}});
}

hd_status hd__op_conv2d_dw_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  HD_TRY(hd__op_output(graph, ctx, node, 0, "dw", HD_VALUE_PARAM_GRAD, HD_F32,
                       &(hd_shape){4, {g->co, g->ci / g->groups, g->kh, g->kw}}));
  if (!node->attrs.bias)
    return HD_OK;
  return hd__op_output(graph, ctx, node, 1, "db", HD_VALUE_PARAM_GRAD, HD_F32, &(hd_shape){1, {g->co}});
}

hd_status hd__op_conv2d_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
hd_status hd__op_conv2d_dw_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
int64_t hd__op_conv2d_dx_cost(const hd_geom *g) { return hd__op_conv2d_cost(g); }
int64_t hd__op_conv2d_dw_cost(const hd_geom *g) { return hd__op_conv2d_cost(g); }
int hd__op_conv2d_dx_sample(hd_geom *g, int index) { return hd__op_conv2d_sample(g, index); }
int hd__op_conv2d_dw_sample(hd_geom *g, int index) { return hd__op_conv2d_sample(g, index); }
int64_t hd__op_conv2d_flops(const hd_geom *g) { return 2 * hd__op_conv2d_cost(g); }
int64_t hd__op_conv2d_dx_flops(const hd_geom *g) { return 2 * hd__op_conv2d_cost(g); }
int64_t hd__op_conv2d_dw_flops(const hd_geom *g) { return 2 * hd__op_conv2d_cost(g); }
