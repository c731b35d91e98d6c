/* What the rules of operations share: geometry, outputs, parameters, samples for the tests. */
#include "graph/op.h"

#include "base/alloc.h"

hd_geom hd__geom_of_shape(const hd_shape *shape) {
  hd_geom g = {.ci = shape->dim[0], .hi = 1, .wi = 1, .kh = 1, .kw = 1, .sh = 1, .sw = 1, .pool = 1};
  if (shape->rank == 3) {
    g.hi = shape->dim[1];
    g.wi = shape->dim[2];
  }
  g.co = g.ci;
  hd__geom_finish(&g);
  return g;
}

int hd__geom_finish(hd_geom *g) {
  g->groups = g->groups ? g->groups : 1;
  g->ho = (g->hi + 2 * g->ph - g->kh) / g->sh + 1;
  g->wo = (g->wi + 2 * g->pw - g->kw) / g->sw + 1;
  if (g->hi + 2 * g->ph < g->kh || g->wi + 2 * g->pw < g->kw)
    return 0;
  g->hp = g->ho / g->pool;
  g->wp = g->wo / g->pool;
  return g->hp > 0 && g->wp > 0;
}

hd_status hd__op_output(hd_graph *graph, hd_ctx *ctx, hd_node *node, int slot, const char *suffix, hd_value_kind kind,
                        hd_dtype dtype, const hd_shape *shape) {
  char *name = suffix ? hd__printf_alloc("%s.%s", node->name, suffix) : hd__strdup(node->name);
  if (!name)
    return hd__fail(ctx, HD_E_NOMEM, "out of memory while building the graph");
  hd_status status = hd__graph_new_value(&node->out[slot], graph, ctx, name, kind, dtype, shape);
  hd__free(name);
  return status;
}

hd_status hd__op_param(hd_graph *graph, hd_ctx *ctx, hd_node *node, int slot, const char *suffix, const hd_shape *shape,
                       const hd_shape *home, int32_t fan_in) {
  char wanted[HD_SHAPE_TEXT_BYTES], found[HD_SHAPE_TEXT_BYTES];
  if (node->in[slot] < 0)
    return hd__graph_new_param(&node->in[slot], graph, ctx, node, slot - 1, suffix, shape, home, fan_in);
  const hd_value *value = &graph->values[node->in[slot]];
  const hd_param *param = &graph->params[value->param];
  if (!hd__shape_equal(&value->shape, shape))
    return hd__fail(ctx, HD_E_SHAPE,
                    "layer '%s': expected a %s of shape %s to share, found %s of shape %s; make both alike", node->name,
                    suffix, hd__shape_text(wanted, sizeof wanted, shape), value->name,
                    hd__shape_text(found, sizeof found, &value->shape));
  if (param->c == home->dim[1] && param->h == home->dim[2] && param->w == home->dim[3])
    return hd__graph_new_alias(graph, ctx, node, suffix, value->param);
  return hd__fail(
      ctx, HD_E_SHAPE,
      "layer '%s': expected to share %s with a layer that reads values flattened alike, found a flattened image "
      "and flat values; share among the ones or the others",
      node->name, value->name);
}

hd_status hd__op_output_like_input(hd_graph *graph, hd_ctx *ctx, hd_node *node) {
  hd_value x = graph->values[node->in[0]];
  node->geom = hd__geom_of_shape(&x.shape);
  HD_TRY(hd__op_output(graph, ctx, node, 0, NULL, HD_VALUE_ROWS, HD_F32, &x.shape));
  graph->values[node->out[0]].order = x.order;
  return HD_OK;
}

int hd__op_sample_elementwise(hd_geom *g, int index) {
  static const hd_shape list[] = {{1, {1}}, {1, {19}}, {3, {3, 4, 5}}, {3, {17, 3, 3}}, {3, {1, 6, 7}}};
  if (index >= (int)(sizeof list / sizeof *list))
    return 0;
  *g = hd__geom_of_shape(&list[index]);
  return 1;
}
