/* The gradient of a linear layer's weight and bias, formed from activations inside the fold over shards.
 *
 * A block of FORM_ROWS outputs j by FORM_GROUPS groups along k stays in registers. Per step of the fold it walks the
 * shard's samples, ascending, as REDUCE does; loads of x serve all j. Then the block meets the entries below it on a
 * small stack that stays in L1: each merge adds the topmost entry to the registers, then the block is pushed, so a
 * shard costs one store of the block and about one load. The lower entry is the left operand, as in every fold.
 *
 * One shard's gradient alone, the REDUCE kernel, is a product of matrices. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

#if HD_ISA_IS(avx512)
enum { FORM_ROWS = 8, FORM_GROUPS = 3 };
#else
enum { FORM_ROWS = 4, FORM_GROUPS = 1 };
#endif

/* One shard's chains: acc = +0; samples ascending: acc = fma(dy[j], x[k], acc). */
G16 void shard(g16 (*acc)[FORM_GROUPS], const hd_form *f, int j, int k, const hd_fold_step *step, int rows, int groups,
               int left) {
  UNROLL
  for (int r = 0; r < rows; r++)
    UNROLL
  for (int v = 0; v < groups; v++)
    acc[r][v] = g16_zero();
  const float *x = f->x + step->row0 * f->x_stride + k, *dy = f->dy + step->row0 * f->dy_stride + j;
  for (int n = step->row0; n < step->row1; n++, x += f->x_stride, dy += f->dy_stride) {
    g16 xv[FORM_GROUPS];
    UNROLL
    for (int v = 0; v < groups; v++)
      xv[v] = groups > 1 ? g16_load(x + 16 * v) : g16_load_some(x, left);
    UNROLL
    for (int r = 0; r < rows; r++) {
      g16 d = g16_all(dy[r]);
      UNROLL
      for (int v = 0; v < groups; v++)
        acc[r][v] = g16_fma(d, xv[v], acc[r][v]);
    }
  }
}

/* Outputs j .. j + rows - 1, columns k .. k + left - 1 (16 * groups of them unless there is one group). */
G16 void form_block(const hd_form *f, int j, int k, int rows, int groups, int left) {
  _Alignas(64) float stack[HD_MAX_FOLD_DEPTH * FORM_ROWS * FORM_GROUPS * 16];
  const int entry = rows * groups * 16;
  g16 acc[FORM_ROWS][FORM_GROUPS];
  float *top = stack;
  for (int s = 0; s < f->fold->count; s++) {
    shard(acc, f, j, k, &f->fold->step[s], rows, groups, left);
    for (int m = 0; m < f->fold->step[s].merges; m++) {
      top -= entry;
      UNROLL
      for (int r = 0; r < rows; r++)
        UNROLL
      for (int v = 0; v < groups; v++)
        acc[r][v] = g16_add(g16_load(top + 16 * (r * groups + v)), acc[r][v]);
    }
    UNROLL
    for (int r = 0; r < rows; r++)
      UNROLL
    for (int v = 0; v < groups; v++)
      g16_store(top + 16 * (r * groups + v), acc[r][v]);
    top += entry;
  }
  for (int r = 0; r < rows; r++)
    UNROLL
  for (int v = 0; v < groups; v++)
    g16_store_some(f->out + (j + r - f->j0) * f->out_ld + (k - f->k0) + 16 * v, g16_load(stack + 16 * (r * groups + v)),
                   left - 16 * v);
}

G16 void form_rows(const hd_form *f, int j, int rows) {
  int k = f->k0;
  if (FORM_GROUPS > 1)
    for (; k + 16 * FORM_GROUPS <= f->k1; k += 16 * FORM_GROUPS)
      form_block(f, j, k, rows, FORM_GROUPS, 16 * FORM_GROUPS);
  for (; k < f->k1; k += 16)
    form_block(f, j, k, rows, 1, f->k1 - k < 16 ? f->k1 - k : 16);
}

static void form_weight(const hd_form *f) {
  int j = f->j0;
  for (; j + FORM_ROWS <= f->j1; j += FORM_ROWS)
    form_rows(f, j, FORM_ROWS);
  if (FORM_ROWS > 4 && j + 4 <= f->j1) {
    form_rows(f, j, 4);
    j += 4;
  }
  if (j + 2 <= f->j1) {
    form_rows(f, j, 2);
    j += 2;
  }
  if (j < f->j1)
    form_rows(f, j, 1);
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
