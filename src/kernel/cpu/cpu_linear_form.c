/* The gradient of a linear layer's weight and bias, formed from activations inside the fold over shards.
 *
 * A block of ROWS outputs j by GROUPS groups along k stays in registers. Per step of the fold it walks the shard's
 * samples, ascending, as REDUCE does; loads of x serve all j. Then the block meets the entries below it on a small stack
 * that stays in L1: each merge adds the topmost entry to the registers, then the block is pushed. The lower entry is the
 * left operand, as in every fold. All outputs meet the block's columns of x, which stay in L1, before the next columns.
 *
 * One shard's gradient alone, the REDUCE kernel, is a product of matrices. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

#if HD_ISA_IS(avx512)
enum { ROWS = 8, GROUPS = 3 };
#else
enum { ROWS = 6, GROUPS = 1 };
#endif

/* A block of the result: its first output and column, columns in its last group. */
typedef struct block {
  const hd_form *f;
  int j, k, left;
} block;

/* One shard's chains: acc = +0; samples ascending: acc = fma(dy[j], x[k], acc). */
G16 void shard(g16 (*acc)[GROUPS], const block *b, const hd_fold_step *step, int rows, int groups) {
  const hd_form *f = b->f;
  const float *x = f->x + step->row0 * f->x_stride + b->k, *dy = f->dy + step->row0 * f->dy_stride + b->j;
  UNROLL
  for (int r = 0; r < rows; r++)
    UNROLL
  for (int v = 0; v < groups; v++)
    acc[r][v] = g16_zero();
  for (int n = step->row0; n < step->row1; n++, x += f->x_stride, dy += f->dy_stride) {
    g16 xv[GROUPS];
    UNROLL
    for (int v = 0; v < groups; v++)
      xv[v] = groups > 1 ? g16_load(x + 16 * v) : g16_load_some(x, b->left);
    UNROLL
    for (int r = 0; r < rows; r++) {
      g16 d = g16_all(dy[r]);
      UNROLL
      for (int v = 0; v < groups; v++)
        acc[r][v] = g16_fma(d, xv[v], acc[r][v]);
    }
  }
}

/* Takes the topmost entry off the stack, onto the registers. */
G16 float *merge(g16 (*acc)[GROUPS], float *top, int rows, int groups) {
  top -= rows * groups * 16;
  UNROLL
  for (int r = 0; r < rows; r++)
    UNROLL
  for (int v = 0; v < groups; v++)
    acc[r][v] = g16_add(g16_load(top + 16 * (r * groups + v)), acc[r][v]);
  return top;
}

G16 float *push(const g16 (*acc)[GROUPS], float *top, int rows, int groups) {
  UNROLL
  for (int r = 0; r < rows; r++)
    UNROLL
  for (int v = 0; v < groups; v++)
    g16_store(top + 16 * (r * groups + v), acc[r][v]);
  return top + rows * groups * 16;
}

/* The last group may be short when there is only one; counts are constants where this is inlined. */
G16 void form_block(const block *b, int rows, int groups) {
  _Alignas(64) float stack[HD_MAX_FOLD_DEPTH * ROWS * GROUPS * 16];
  const hd_form *f = b->f;
  const hd_fold_step *step = f->fold->step, *end = step + f->fold->count;
  g16 acc[ROWS][GROUPS];
  for (float *top = stack;; top = push(acc, top, rows, groups)) {
    shard(acc, b, step, rows, groups);
    for (int m = 0; m < step->merges; m++)
      top = merge(acc, top, rows, groups);
    if (++step == end)
      break;
  }
  UNROLL
  for (int r = 0; r < rows; r++) {
    float *out = f->out + (b->j + r - f->j0) * f->out_ld + (b->k - f->k0);
    UNROLL
    for (int v = 0; v < groups; v++)
      if (groups > 1)
        g16_store(out + 16 * v, acc[r][v]);
      else
        g16_store_some(out, acc[r][v], b->left);
  }
}

#define FORM_ROWS(count)                                                                                               \
  case count:                                                                                                          \
    if (count <= ROWS)                                                                                                 \
      form_block(&b, count, groups);                                                                                   \
    break

/* All outputs, in blocks as even as they can be, of some groups of columns: their x stays in L1. */
G16 void form_columns(const hd_form *f, int k, int groups) {
  block b = {.f = f, .j = f->j0, .k = k, .left = f->k1 - k};
  for (int blocks = (f->j1 - b.j + ROWS - 1) / ROWS; blocks > 0; blocks--) {
    const int rows = (f->j1 - b.j + blocks - 1) / blocks;
    switch (rows) {
      FORM_ROWS(1);
      FORM_ROWS(2);
      FORM_ROWS(3);
      FORM_ROWS(4);
      FORM_ROWS(5);
      FORM_ROWS(6);
      FORM_ROWS(7);
      FORM_ROWS(8);
    }
    b.j += rows;
  }
}

static void form_weight(const hd_form *f) {
  int k = f->k0;
  if (GROUPS > 1)
    for (; k + 16 * GROUPS <= f->k1; k += 16 * GROUPS)
      form_columns(f, k, GROUPS);
  for (; k < f->k1; k += 16)
    form_columns(f, k, 1);
}

/* One group of biases: per shard acc = +0; samples ascending: acc = acc + dy[j]. */
static g16 form_bias_group(const hd_form *f, int j) {
  g16 stack[HD_MAX_FOLD_DEPTH], acc;
  int top = 0;
  for (int s = 0; s < f->fold->count; s++) {
    const hd_fold_step *step = &f->fold->step[s];
    acc = g16_zero();
    for (int64_t n = step->row0; n < step->row1; n++)
      acc = g16_add(acc, g16_load_some(f->dy + n * f->dy_stride + j, f->j1 - j));
    for (int m = 0; m < step->merges; m++)
      acc = g16_add(stack[--top], acc);
    stack[top++] = acc;
  }
  return stack[0];
}

static void form_bias(const hd_form *f) {
  for (int j = f->j0; j < f->j1; j += 16)
    g16_store_some(f->out + (j - f->j0), form_bias_group(f, j), f->j1 - j);
}

static void form_linear_dw(const hd_form *f) {
  if (f->output == 0)
    form_weight(f);
  else
    form_bias(f);
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
  hd_fold one = {.count = 1};
  one.step[0] = (hd_fold_step){.row1 = (int32_t)call->rows};
  form_bias(
      &(hd_form){.dy = call->in[1], .dy_stride = call->in_stride[1], .fold = &one, .j1 = g->co, .out = call->out[1]});
}

void HD_SYM(linear_form_fill)(hd_kernels *table) {
  table->run[HD_OP_linear_dw] = linear_dw;
  table->form[HD_OP_linear_dw] = form_linear_dw;
}
