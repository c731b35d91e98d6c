/* The table of operations, made of ops.def, and what all shape rules share. */
#include "graph/op.h"

#include <string.h>

#include "base/alloc.h"

#define OP_ROWS(name)                                                                                                  \
  {#name, HD_CLASS_ROWS, hd__op_##name##_infer, hd__op_##name##_grad, hd__op_##name##_cost, hd__op_##name##_sample},
#define OP_REDUCE(name)                                                                                                \
  {#name, HD_CLASS_REDUCE, hd__op_##name##_infer, hd__op_##name##_grad, hd__op_##name##_cost, hd__op_##name##_sample},
#define OP_UPDATE(name) {#name, HD_CLASS_UPDATE, NULL, NULL, NULL, NULL},
#define OP(name, class) OP_##class(name)
static const hd_op_info table[HD_OP_COUNT] = {
#include "graph/ops.def"
};

const hd_op_info *hd__op_info(hd_op op) { return &table[op]; }

hd_op hd__op_by_name(const char *name) {
  static const hd_op written[] = {HD_OP_conv2d, HD_OP_max_pool2d, HD_OP_linear, HD_OP_relu, HD_OP_flatten, HD_OP_add};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++)
    if (!strcmp(table[written[i]].name, name))
      return written[i];
  return HD_OP_COUNT;
}

hd_status hd__grad_none(hd_grad *grad, const hd_node *node) {
  (void)grad;
  (void)node;
  return hd__fail(NULL, HD_E_UNSUPPORTED, "not differentiable");
}

int hd__geom_finish(hd_geom *g) {
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
