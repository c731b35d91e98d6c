/* The table of operations, generated from ops.def. */
#include "graph/gradient.h"

#define OP_ENTRY(name, class)                                                                                          \
  {#name,                                                                                                              \
   class,                                                                                                              \
   hd__op_##name##_infer,                                                                                              \
   hd__op_##name##_grad,                                                                                               \
   hd__op_##name##_cost,                                                                                               \
   hd__op_##name##_flops,                                                                                              \
   hd__op_##name##_sample,                                                                                             \
   {0}},
#define OP_ROWS(name) OP_ENTRY(name, HD_CLASS_ROWS)
#define OP_SHARD(name) OP_ENTRY(name, HD_CLASS_SHARD)
#define OP_REDUCE(name) OP_ENTRY(name, HD_CLASS_REDUCE)
#define OP_STATS(name) OP_ENTRY(name, HD_CLASS_STATS)
#define OP_UPDATE(name) {#name, HD_CLASS_UPDATE, NULL, NULL, NULL, NULL, NULL, {0}},
#define ELEMENTWISE(name, reads, flops, dx_flops, ...)                                                                 \
  {#name,                                                                                                              \
   HD_CLASS_ROWS,                                                                                                      \
   hd__op_elementwise_infer,                                                                                           \
   hd__op_elementwise_grad,                                                                                            \
   hd__op_elementwise_cost,                                                                                            \
   NULL,                                                                                                               \
   hd__op_elementwise_sample,                                                                                          \
   {HD_ELEMENTWISE, HD_OP_##name##_dx, HD_READS_##reads, flops}},                                                      \
      {#name "_dx",                                                                                                    \
       HD_CLASS_ROWS,                                                                                                  \
       hd__op_elementwise_dx_infer,                                                                                    \
       hd__grad_none,                                                                                                  \
       hd__op_elementwise_cost,                                                                                        \
       NULL,                                                                                                           \
       hd__op_elementwise_sample,                                                                                      \
       {HD_ELEMENTWISE_DX, HD_OP_##name##_dx, HD_READS_##reads, dx_flops}},
#define OP(name, class) OP_##class(name)
static const hd_op_info table[HD_OP_COUNT] = {
#include "kernel/ops.def"
};

const hd_op_info *hd__op_info(hd_op op) { return &table[op]; }

int64_t hd__op_flops(hd_op op, const hd_geom *g) {
  return table[op].flops ? table[op].flops(g) : (int64_t)table[op].elementwise.flops * g->ci * g->hi * g->wi;
}

bool hd__op_works_in_place(hd_op op) {
  static const hd_op list[] = {HD_OP_relu,    HD_OP_relu_dx,    HD_OP_dropout, HD_OP_dropout_dx,
                               HD_OP_softmax, HD_OP_softmax_dx, HD_OP_add};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i] == op)
      return true;
  return table[op].elementwise.role != HD_NOT_ELEMENTWISE;
}
