/* The gradient of a linear layer's weight and bias, formed inside the reduction over shards (linear_form_cpu.h). One
 * shard's gradient alone, the REDUCE kernel, is a product of matrices. */
#include "op/linear/linear_form_cpu.h"

#include "op/linear/linear_cpu.h"

FORMS(0)

/* One group of biases: per shard acc = +0; samples ascending: acc = acc + dy[j]. */
static g16 form_bias_group(const hd_form *f, int j) {
  g16 stack[HD_MAX_REDUCTION_DEPTH], acc;
  for (hd_walk w = hd__reduction_walk(f->reduction); hd__walk_push(&w); stack[w.top] = acc) {
    acc = g16_zero();
    for (int64_t n = w.step->row0; n < w.step->row1; n++)
      acc = g16_add(acc, g16_load_some(f->dy + n * f->dy_stride + j, f->j1 - j));
    while (hd__walk_merge(&w))
      acc = g16_add(stack[w.top], acc);
  }
  return stack[0];
}

void HD_SYM(linear_form_bias)(const hd_form *f) {
  for (int j = f->j0; j < f->j1; j += 16)
    g16_store_some(f->out + (j - f->j0), form_bias_group(f, j), f->j1 - j);
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

void HD_SYM(linear_form_fill)(hd_kernels *table) {
  table->run[HD_OP_linear_dw] = linear_dw;
  table->form[HD_OP_linear_dw] = form_linear_dw;
}
