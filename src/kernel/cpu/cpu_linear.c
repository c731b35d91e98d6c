/* The linear layer, in register blocks, and the gradient of its input, a product of matrices.
 *
 * Forward: an output is 16 interleaved chains over k in one group, so a block of OUT_ROWS samples by OUTS outputs keeps
 * that many groups in registers and walks k once; loads of x and w are shared over the block. An element's chain never
 * depends on the block it fell into, so a tail of samples or outputs runs the same code with smaller constants.
 *
 * Loops go over outputs outside and samples inside: the block's weights stay in L1 while samples stream.
 * Very long sums go in parts for the same reason; their chains are set aside as they are and taken up again. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

/* Blocks that fill the registers: 32 of a group each, 16 of half a group, 32 of a quarter. */
#if HD_ISA_IS(avx512)
enum { OUT_ROWS = 4, OUTS = 4 };
#else
enum { OUT_ROWS = 3, OUTS = 2 };
#endif

/* A block's weights and samples stay in L1 while PART_COLUMNS columns are summed; the chains of SLAB_ROWS rows wait
 * meanwhile. */
enum { PART_COLUMNS = 1024, SLAB_ROWS = 8 * OUT_ROWS };

/* One lane range of the chains: a whole group, or the tail under a mask. A masked lane keeps its chain untouched:
 * adding 0 * 0 would turn a -0 into +0. */
G16 void step(g16 (*acc)[OUTS], const float *const *x, const float *w, int64_t ld, int k, int tail, int rows,
              int outs) {
  g16_mask mask = g16_first(tail < 16 ? tail : 0);
  g16 wv[OUTS];
  UNROLL
  for (int j = 0; j < outs; j++)
    wv[j] = tail < 16 ? g16_load_mask(w + j * ld + k, mask) : g16_load(w + j * ld + k);
  UNROLL
  for (int r = 0; r < rows; r++) {
    g16 xv = tail < 16 ? g16_load_mask(x[r] + k, mask) : g16_load(x[r] + k);
    UNROLL
    for (int j = 0; j < outs; j++) {
      g16 sum = g16_fma(xv, wv[j], acc[r][j]);
      acc[r][j] = tail < 16 ? g16_choose(mask, sum, acc[r][j]) : sum;
    }
  }
}

G16 void trees(float *out, const g16 *acc, int outs) {
  if (outs == 4)
    g16_tree4(out, acc[0], acc[1], acc[2], acc[3]);
  else
    for (int o = 0; o < outs; o++)
      out[o] = g16_tree(acc[o]);
}

G16 float finish(float tree, const float *b, int relu) {
  float y = b ? tree + *b : tree;
  return relu && y < 0 ? 0 : y;
}

/* Outputs j .. j + outs - 1 of rows n .. n + rows - 1, columns k0 .. k1 - 1 of their sums; both counts are constants
 * where this is inlined. Chains that began in an earlier part of the columns wait in `saved`. */
G16 void output_block(const hd_call *call, g16 (*saved)[OUTS], int64_t n, int j, int k0, int k1, int rows, int outs) {
  const hd_geom *g = call->g;
  const float *w = (const float *)call->in[1] + (int64_t)j * g->ci, *b = call->in[2], *x[OUT_ROWS];
  g16 acc[OUT_ROWS][OUTS];
  UNROLL
  for (int r = 0; r < rows; r++) {
    x[r] = (const float *)call->in[0] + (n + r) * call->in_stride[0];
    UNROLL
    for (int o = 0; o < outs; o++)
      acc[r][o] = k0 == 0 ? g16_zero() : saved[r][o];
  }
  int k = k0;
  for (; k + 16 <= k1; k += 16)
    step(acc, x, w, g->ci, k, 16, rows, outs);
  if (k < k1)
    step(acc, x, w, g->ci, k, k1 - k, rows, outs);
  UNROLL
  for (int r = 0; r < rows; r++) {
    float *y = (float *)call->out[0] + (n + r) * call->out_stride[0] + j, tree[OUTS];
    if (k1 < g->ci) {
      UNROLL
      for (int o = 0; o < outs; o++)
        saved[r][o] = acc[r][o];
      continue;
    }
    trees(tree, acc[r], outs);
    for (int o = 0; o < outs; o++)
      y[o] = finish(tree[o], b ? b + j + o : NULL, g->relu);
  }
}

/* Rows n0 .. n1 - 1 for one block of outputs and one part of the columns. */
G16 void output_part(const hd_call *call, g16 (*saved)[OUTS], int64_t n0, int64_t n1, int j, int k0, int k1, int outs) {
  int64_t n = n0;
  for (; n + OUT_ROWS <= n1; n += OUT_ROWS)
    output_block(call, saved + (n - n0), n, j, k0, k1, OUT_ROWS, outs);
  if (OUT_ROWS > 2 && n + 2 <= n1) {
    output_block(call, saved + (n - n0), n, j, k0, k1, 2, outs);
    n += 2;
  }
  if (n < n1)
    output_block(call, saved + (n - n0), n, j, k0, k1, 1, outs);
}

/* All rows for one block of outputs; `outs` is a constant where this is inlined. */
G16 void output_column(const hd_call *call, int j, int outs) {
  const int ci = call->g->ci, parts = (ci + PART_COLUMNS - 1) / PART_COLUMNS;
  const int width = ((ci + parts - 1) / parts + 15) / 16 * 16;
  g16 saved[SLAB_ROWS][OUTS];
  for (int64_t n0 = 0; n0 < call->rows; n0 += SLAB_ROWS) {
    const int64_t n1 = n0 + SLAB_ROWS < call->rows ? n0 + SLAB_ROWS : call->rows;
    for (int k0 = 0; k0 < ci; k0 += width)
      output_part(call, saved, n0, n1, j, k0, k0 + width < ci ? k0 + width : ci, outs);
  }
}

static void linear(const hd_call *call) {
  int j = 0;
  for (; j + OUTS <= call->g->co; j += OUTS)
    output_column(call, j, OUTS);
  if (OUTS > 2 && j + 2 <= call->g->co) {
    output_column(call, j, 2);
    j += 2;
  }
  if (j < call->g->co)
    output_column(call, j, 1);
}

static void linear_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  HD_SYM(gemm)
  (&(hd_gemm){.m = call->rows,
              .n = g->ci,
              .k = g->co,
              .a = call->in[0],
              .a_row = call->in_stride[0],
              .a_step = 1,
              .b = call->in[1],
              .b_step = g->ci,
              .b_column = 1,
              .c = call->out[0],
              .c_row = call->out_stride[0]});
}

void HD_SYM(linear_fill)(hd_kernels *table) {
  table->run[HD_OP_linear] = linear;
  table->run[HD_OP_linear_dx] = linear_dx;
}
