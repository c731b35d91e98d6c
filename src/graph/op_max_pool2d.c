/* max_pool2d: the maximum of each window of an image, any window, stride and padding; and its gradient. The geometry
 * is that of avg_pool2d too.
 *
 * Padding is never the maximum. Of equal values the first is chosen; a NaN is always chosen. */
#include "graph/gradient.h"

hd_status hd__op_pool_geom(hd_graph *graph, hd_ctx *ctx, hd_node *node, const char *op) {
  const hd_value *x = &graph->values[node->in[0]];
  const hd_attrs *a = &node->attrs;
  char text[HD_SHAPE_TEXT_BYTES];
  if (x->shape.rank != 3)
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': %s expects an image (channels x height x width), found %s; put it before flatten",
                    node->name, op, hd__shape_text(text, sizeof text, &x->shape));
  if (2 * a->padding[0] > a->kernel[0] || 2 * a->padding[1] > a->kernel[1])
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': %s expects padding of at most half the kernel, found %d; use less padding", node->name,
                    op, a->padding[2 * a->padding[0] <= a->kernel[0]]);
  node->geom = (hd_geom){.ci = x->shape.dim[0],
                         .hi = x->shape.dim[1],
                         .wi = x->shape.dim[2],
                         .co = x->shape.dim[0],
                         .kh = a->kernel[0],
                         .kw = a->kernel[1],
                         .sh = a->stride[0] ? a->stride[0] : a->kernel[0],
                         .sw = a->stride[1] ? a->stride[1] : a->kernel[1],
                         .ph = a->padding[0],
                         .pw = a->padding[1],
                         .pool = 1,
                         .count_include_pad = a->count_include_pad};
  const hd_geom *g = &node->geom;
  if (!hd__geom_finish(&node->geom))
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': a %dx%d window expects an input at least that large, found %s; use a smaller kernel",
                    node->name, g->kh, g->kw, hd__shape_text(text, sizeof text, &x->shape));
  return HD_OK;
}

hd_status hd__op_max_pool2d_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  HD_TRY(hd__op_pool_geom(graph, ctx, node, "max_pool2d"));
  const hd_geom *g = &node->geom;
  if (g->kh * g->kw > 256)
    return hd__fail(
        ctx, HD_E_SHAPE,
        "layer '%s': max_pool2d expects a window of at most 256 positions, found %dx%d; use a smaller kernel",
        node->name, g->kh, g->kw);
  hd_shape shape = {3, {g->co, g->ho, g->wo}};
  HD_TRY(hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &shape));
  return hd__op_output(graph, ctx, node, 1, "argmax", HD_VALUE_ROWS, HD_U8, &shape);
}

hd_status hd__op_max_pool2d_grad(hd_grad *grad, const hd_node *node) {
  int dy = hd__grad_of(grad, node->out[0]);
  if (!hd__grad_wants(grad, node->in[0]))
    return HD_OK;
  hd_node *dx;
  HD_TRY(hd__grad_node(&dx, grad, HD_OP_max_pool2d_dx, node, (int[]){dy, node->out[1]}, 2));
  return hd__grad_give(grad, node->in[0], dx->out[0]);
}

int64_t hd__op_max_pool2d_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

int hd__op_max_pool2d_sample(hd_geom *g, int index) {
  static const hd_geom list[] = {
      {.ci = 1, .hi = 1, .wi = 1, .kh = 1, .kw = 1, .sh = 1, .sw = 1, .pool = 1},
      {.ci = 3, .hi = 7, .wi = 6, .kh = 2, .kw = 2, .sh = 2, .sw = 2, .pool = 1},
      {.ci = 17, .hi = 8, .wi = 9, .kh = 3, .kw = 3, .sh = 2, .sw = 2, .ph = 1, .pw = 1, .pool = 1},
      {.ci = 5, .hi = 6, .wi = 6, .kh = 3, .kw = 2, .sh = 1, .sw = 2, .pw = 1, .pool = 1},
  };
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = list[index];
  g->co = g->ci;
  return hd__geom_finish(g);
}

hd_status hd__op_max_pool2d_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, &(hd_shape){3, {g->ci, g->hi, g->wi}});
}

hd_status hd__op_max_pool2d_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }
int64_t hd__op_max_pool2d_dx_cost(const hd_geom *g) { return hd__op_max_pool2d_cost(g); }
int hd__op_max_pool2d_dx_sample(hd_geom *g, int index) { return hd__op_max_pool2d_sample(g, index); }

/* A comparison for each position except the first. */
int64_t hd__op_max_pool2d_flops(const hd_geom *g) { return (int64_t)g->co * g->ho * g->wo * (g->kh * g->kw - 1); }
int64_t hd__op_max_pool2d_dx_flops(const hd_geom *g) { return (int64_t)g->co * g->ho * g->wo; }
