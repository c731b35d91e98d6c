/* The definition of an operation except for its kernels: shape rule, gradient rule, cost, samples for the tests. One
 * file op_NAME.c each.
 *
 * ops.def makes the functions' names: hd__op_NAME_infer and so on. op_table.c is the table of all operations, op.c has
 * what the rules share. Rules never read the table: it depends on them. */
#ifndef HD_GRAPH_OP_H
#define HD_GRAPH_OP_H

#include "base/tools_api.h"
#include "graph/graph.h"

/* The state of a walk over the gradient rules: graph/gradient.h. */
typedef struct hd_grad hd_grad;

/* For shape rules: makes out[slot] of a node, named "NODE" or "NODE.SUFFIX". */
hd_status hd__op_output(hd_graph *graph, hd_ctx *ctx, hd_node *node, int slot, const char *suffix, hd_value_kind kind,
                        hd_dtype dtype, const hd_shape *shape);

/* For shape rules: makes the parameter in[slot] ("NAME.SUFFIX") unless another node's parameter is given there,
 * which must have the same shape and memory order. Slot 1 is the weight, 2 the bias. */
hd_status hd__op_param(hd_graph *graph, hd_ctx *ctx, hd_node *node, int slot, const char *suffix, const hd_shape *shape,
                       const hd_shape *home, int32_t fan_in);

/* The shape rule of elementwise operations: the output has the shape and memory order of in[0]. And their samples. */
hd_status hd__op_output_like_input(hd_graph *graph, hd_ctx *ctx, hd_node *node);
int hd__op_sample_elementwise(hd_geom *geom, int index);

/* The geometry of a pooling operation, from its input and attrs; `op` is its name, for messages. */
hd_status hd__op_pool_geom(hd_graph *graph, hd_ctx *ctx, hd_node *node, const char *op);

/* Shape rule: reads in[] and attrs, writes geom, makes parameters (in[1], in[2]) and out[]. For an operation
 * of the backward pass geom is set already, and out[] is made from it. */
typedef hd_status hd_infer_fn(hd_graph *graph, hd_ctx *ctx, hd_node *node);
/* Gradient rule: d out[0] exists; adds nodes and sets the gradients of the inputs that want one. */
typedef hd_status hd_grad_fn(hd_grad *grad, const hd_node *node);
/* The cost of one sample, counted as for dense libraries: `cost` in multiply-adds, `flops` in floating-point
 * operations. A multiply-add counts as two; a comparison, an exponential and a division as one each. Bias terms are
 * not counted. */
typedef int64_t hd_cost_fn(const hd_geom *geom);
/* The index-th shape for tests; returns 0 when there is none left. The geometry is complete, as infer would write
 * it. */
typedef int hd_sample_fn(hd_geom *geom, int index);

/* Of an ELEMENTWISE row: y = f(x), and its gradient, which reads dy and x or y. */
typedef enum hd_reads { HD_READS_INPUT, HD_READS_OUTPUT } hd_reads;

typedef struct hd_elementwise {
  enum { HD_NOT_ELEMENTWISE, HD_ELEMENTWISE, HD_ELEMENTWISE_DX } role;
  hd_op gradient; /* NAME_dx */
  hd_reads reads; /* of the gradient */
  int32_t flops;  /* of one element */
} hd_elementwise;

typedef struct hd_op_info {
  const char *name;
  hd_op_class class;
  hd_infer_fn *infer;
  hd_grad_fn *grad;
  hd_cost_fn *cost, *flops; /* flops: NULL if elementwise, see hd__op_flops */
  hd_sample_fn *sample;
  hd_elementwise elementwise;
} hd_op_info;

HD_TOOLS_API const hd_op_info *hd__op_info(hd_op op);
HD_TOOLS_API int64_t hd__op_flops(hd_op op, const hd_geom *geom);

/* Whether out[0] may be in[0] (kernel.h notes it as HD_INPLACE). */
HD_TOOLS_API bool hd__op_works_in_place(hd_op op);

/* The geometry of an operation that kernels see as ci channels of hi x wi, its output alike. */
hd_geom hd__geom_of_shape(const hd_shape *shape);

/* Completes a geometry: ho, wo, hp, wp from the other fields; one group if groups is 0. Returns 0 if no output position
 * exists. */
HD_TOOLS_API int hd__geom_finish(hd_geom *geom);

/* The rules of all ELEMENTWISE rows. */
hd_infer_fn hd__op_elementwise_infer, hd__op_elementwise_dx_infer;
hd_grad_fn hd__op_elementwise_grad;
hd_cost_fn hd__op_elementwise_cost;
hd_sample_fn hd__op_elementwise_sample;

#define OP_ROWS(name)                                                                                                  \
  hd_infer_fn hd__op_##name##_infer;                                                                                   \
  hd_grad_fn hd__op_##name##_grad;                                                                                     \
  hd_cost_fn hd__op_##name##_cost;                                                                                     \
  hd_cost_fn hd__op_##name##_flops;                                                                                    \
  hd_sample_fn hd__op_##name##_sample;
#define OP_REDUCE(name) OP_ROWS(name)
#define OP_STATS(name) OP_ROWS(name)
#define OP_SHARD(name) OP_ROWS(name)
#define OP_UPDATE(name)
#define OP(name, class) OP_##class(name)
#define ELEMENTWISE(name, ...)
#include "kernel/ops.def"
#undef OP_ROWS
#undef OP_REDUCE
#undef OP_STATS
#undef OP_SHARD
#undef OP_UPDATE

#endif
