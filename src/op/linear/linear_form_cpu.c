/* The gradient of a linear layer's weight and bias, formed inside the reduction over shards (linear_form_cpu.h). One
 * shard's gradient alone, the REDUCE kernel, is a product of matrices. */
#include "op/linear/linear_form_cpu.h"

#include "op/linear/linear_cpu.h"

FORMS(0)

enum { BIAS_GROUPS = 4 };

/* Groups of biases: per shard acc = +0; samples ascending: acc = acc + dy[j]. The last group may be short when there is
 * only one; `groups` is a constant where this is inlined. */
G16 void form_bias_groups(const hd_form *f, int j, int groups) {
  g16 stack[HD_MAX_REDUCTION_DEPTH][BIAS_GROUPS], acc[BIAS_GROUPS];
  const int left = f->j1 - j;
  for (hd_walk w = hd__reduction_walk(f->reduction); hd__walk_push(&w);) {
    UNROLL_FOR (v, groups)
      acc[v] = g16_zero();
    const float *dy = f->dy + w.step->row0 * f->dy_stride + j;
    for (int64_t n = w.step->row0; n < w.step->row1; n++, dy += f->dy_stride)
      UNROLL_FOR (v, groups)
        acc[v] = g16_add(acc[v], groups > 1 ? g16_load(dy + 16 * v) : g16_load_some(dy, left));
    while (hd__walk_merge(&w)) {
      UNROLL_FOR (v, groups)
        acc[v] = g16_add(stack[w.top][v], acc[v]);
    }
    UNROLL_FOR (v, groups)
      stack[w.top][v] = acc[v];
  }
  UNROLL_FOR (v, groups)
    g16_store_some(f->out + (j - f->j0) + 16 * v, stack[0][v], left - 16 * v);
}

void HD_SYM(linear_form_bias)(const hd_form *f) {
  int j = f->j0;
  for (; j + 16 * BIAS_GROUPS <= f->j1; j += 16 * BIAS_GROUPS)
    form_bias_groups(f, j, BIAS_GROUPS);
  for (; j < f->j1; j += 16)
    form_bias_groups(f, j, 1);
}

static void form_linear_dw(const hd_form *f) {
  if (f->output == 0)
    form_weight(f, f->x + f->reduction->step->row0 * f->x_stride, f->k0, f->k1, NULL, form_of);
  else
    HD_SYM(linear_form_bias)(f);
}

static void linear_dw(const hd_call *call) {
  const hd_geom *g = call->g;
  if (call->out[0])
    HD_SYM(gemm)
  (&(hd_gemm){.m = g->co,
              .n = g->ci,
              .k = call->rows,
              .a = call->in[1],
              .a_row = 1,
              .a_step = call->in_stride[1],
              .b = call->in[0],
              .b_step = call->in_stride[0],
              .b_column = 1,
              .c = call->out[0],
              .c_row = g->ci});
  if (!call->out[1])
    return;
  hd_reduction one = {.count = 1};
  one.step[0] = (hd_reduction_step){.row1 = (int32_t)call->rows};
  HD_SYM(linear_form_bias)
  (&(hd_form){.dy = call->in[1], .dy_stride = call->in_stride[1], .reduction = &one, .j1 = g->co, .out = call->out[1]});
}

static int64_t scratch_bytes(const hd_geom *g, int64_t rows) { return copies_bytes(rows); }

void HD_SYM(linear_form_fill)(hd_kernels *table) {
  table->run[HD_OP_linear_dw] = linear_dw;
  table->form[HD_OP_linear_dw] = form_linear_dw;
  table->form_scratch_bytes[HD_OP_linear_dw] = scratch_bytes;
}
