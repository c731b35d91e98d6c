/* concat: images of equal height and width, channel after channel, or flat values end to end; and its gradient,
 * which extracts the part of one input.
 *
 * Flattened images that keep their image's memory order are joined as images; in PyTorch's order the result is the
 * same. */
#include "graph/gradient.h"

/* The image whose memory order a value has; a flat value counts as an image of 1x1 pixels. */
static hd_shape lies_as(const hd_value *value) {
  hd_shape flat = {3, {value->shape.dim[0], 1, 1}};
  return value->order.rank == 3 ? value->order : value->shape.rank == 3 ? value->shape : flat;
}

static hd_status check_alike(hd_ctx *ctx, const hd_node *node, const hd_value *a, const hd_value *b) {
  char ta[HD_SHAPE_TEXT_BYTES], tb[HD_SHAPE_TEXT_BYTES];
  hd_shape la = lies_as(a), lb = lies_as(b);
  bool same_sides = la.dim[1] == lb.dim[1] && la.dim[2] == lb.dim[2];
  if (a->shape.rank != b->shape.rank || (a->shape.rank == 3 && !same_sides))
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': concat expects images of one height and width or flat values, found %s and %s; make "
                    "all but the channels equal",
                    node->name, hd__shape_text(ta, sizeof ta, &a->shape), hd__shape_text(tb, sizeof tb, &b->shape));
  if (!same_sides)
    return hd__fail(
        ctx, HD_E_SHAPE,
        "layer '%s': concat expects flat values that were flattened alike, found %s of %s and %s of %s; put "
        "a linear layer before it",
        node->name, hd__shape_text(ta, sizeof ta, &a->shape), a->order.rank == 3 ? "an image" : "no image",
        hd__shape_text(tb, sizeof tb, &b->shape), b->order.rank == 3 ? "an image" : "no image");
  return HD_OK;
}

hd_status hd__op_concat_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_value *first = &graph->values[node->in[0]];
  hd_shape image = lies_as(first), shape = image;
  int32_t part[HD_MAX_IN] = {0};
  bool flat = first->shape.rank == 1, ordered = false;
  image.dim[0] = 0;
  for (int i = 0; i < HD_MAX_IN && node->in[i] >= 0; i++) {
    const hd_value *x = &graph->values[node->in[i]];
    HD_TRY(check_alike(ctx, node, first, x));
    ordered |= x->order.rank == 3;
    part[i] = lies_as(x).dim[0];
    image.dim[0] += part[i];
  }
  shape.dim[0] = image.dim[0];
  node->geom = hd__geom_of_shape(&image);
  for (int i = 0; i < HD_MAX_IN; i++)
    node->geom.part[i] = part[i];
  if (flat)
    shape = (hd_shape){1, {(int32_t)hd__shape_elems(&image)}};
  HD_TRY(hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &shape));
  if (flat && ordered)
    graph->values[node->out[0]].order = image;
  return HD_OK;
}

hd_status hd__op_concat_grad(hd_grad *grad, const hd_node *node) {
  int dy = hd__grad_of(grad, node->out[0]);
  hd_node of = *node;
  of.geom.first = 0;
  for (int i = 0; i < HD_MAX_IN && node->in[i] >= 0; i++) {
    hd_node *dx;
    of.geom.ci = node->geom.part[i];
    if (hd__grad_wants(grad, node->in[i])) {
      HD_TRY(hd__grad_node(&dx, grad, HD_OP_concat_dx, &of, (int[]){dy, node->in[i]}, 1));
      HD_TRY(hd__grad_give(grad, node->in[i], dx->out[0]));
    }
    of.geom.first += node->geom.part[i];
  }
  return HD_OK;
}

hd_status hd__op_concat_dx_infer(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  const hd_geom *g = &node->geom;
  bool flat = graph->values[node->in[0]].shape.rank == 1;
  hd_shape image = {3, {g->ci, g->hi, g->wi}}, line = {1, {g->ci * g->hi * g->wi}};
  return hd__op_output(graph, ctx, node, 0, "dx", HD_VALUE_ROWS, HD_F32, flat ? &line : &image);
}

hd_status hd__op_concat_dx_grad(hd_grad *grad, const hd_node *node) { return hd__grad_none(grad, node); }

/* Elements are moved, not computed. */
int64_t hd__op_concat_cost(const hd_geom *g) {
  (void)g;
  return 0;
}

int64_t hd__op_concat_dx_cost(const hd_geom *g) { return hd__op_concat_cost(g); }
int64_t hd__op_concat_flops(const hd_geom *g) { return hd__op_concat_cost(g); }
int64_t hd__op_concat_dx_flops(const hd_geom *g) { return hd__op_concat_cost(g); }

int hd__op_concat_sample(hd_geom *g, int index) {
  static const struct {
    int32_t h, w, part[HD_MAX_IN];
  } list[] = {{1, 1, {1, 1}}, {1, 1, {19, 3, 16}}, {3, 2, {1, 17}}, {2, 5, {16, 16}}, {4, 1, {5, 1, 2, 3, 4, 33, 1}}};
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  hd_shape image = {3, {0, list[index].h, list[index].w}};
  for (int i = 0; i < HD_MAX_IN; i++)
    image.dim[0] += list[index].part[i];
  *g = hd__geom_of_shape(&image);
  for (int i = 0; i < HD_MAX_IN; i++)
    g->part[i] = list[index].part[i];
  return 1;
}

/* The gradient of the second input. */
int hd__op_concat_dx_sample(hd_geom *g, int index) {
  if (!hd__op_concat_sample(g, index))
    return 0;
  g->ci = g->part[1];
  g->first = g->part[0];
  return 1;
}
