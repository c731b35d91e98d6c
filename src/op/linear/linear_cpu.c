/* The linear layer, in register blocks, and the gradient of its input, a product of matrices.
 *
 * Forward: an output is 16 interleaved chains over k in one group, so a block of ROWS samples by OUTS outputs keeps
 * that many groups in registers for one pass over k; loads of x and w are shared over the block. An element's chain
 * does not depend on its block, so a tail of samples or outputs runs the same code with smaller constants.
 *
 * A slab of outputs, whose weights stay in the second-level cache, is computed for all samples before the next.
 * There the block's samples stay in the first-level cache while the slab's weights stream; very long sums are
 * computed in parts for the same reason, and the slab's chains are stored between parts. Bias and ReLU follow in
 * whole groups. */
#include "kernel/cpu/blocks.h"
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

enum { ROWS = LINEAR_ROWS, OUTS = LINEAR_OUTS };

/* A slab: 640 KB of weights, and at most as many blocks as there is room to store chains for. From FETCH_ELEMS weights
 * on, 2 MB, the next slab is not in a core's caches yet. */
enum { PART_COLUMNS = 1024, SLAB_ELEMS = 160 << 10, SLAB_BLOCKS = 32, FETCH_ELEMS = 512 << 10 };

/* Some outputs of some samples, for one part of the columns: rows of x, w and y from the first one on. */
typedef struct block {
  const float *x, *w;
  float *y;
  int64_t x_stride, y_stride;
  int columns;        /* of x and w; rows of w are contiguous */
  int k0, k1;         /* the part's */
  g16 (*saved)[OUTS]; /* chains of an earlier part, per sample */
  const float *next;  /* weights that are fetched meanwhile, */
  int ahead;          /* so many elements further in each step; 0: none are */
} block;

static inline int64_t steps_of(const block *b) { return (b->k1 - b->k0) / 16; }

/* One lane range of the chains: a whole group, or the tail under a mask. A masked lane keeps its chain untouched:
 * adding 0 * 0 would turn a -0 into +0. */
G16 void step(g16 (*acc)[OUTS], const block *b, int k, int tail, int rows, int outs) {
  g16_mask mask = g16_first(tail < 16 ? tail : 0);
  g16 wv[OUTS];
  UNROLL
  for (int j = 0; j < outs; j++) {
    const float *w = b->w + (int64_t)j * b->columns + k;
    wv[j] = tail < 16 ? g16_load_mask(w, mask) : g16_load(w);
  }
  UNROLL
  for (int r = 0; r < rows; r++) {
    const float *x = b->x + r * b->x_stride + k;
    g16 xv = tail < 16 ? g16_load_mask(x, mask) : g16_load(x);
    UNROLL
    for (int j = 0; j < outs; j++) {
      g16 sum = g16_fma(xv, wv[j], acc[r][j]);
      acc[r][j] = tail < 16 ? g16_choose(mask, sum, acc[r][j]) : sum;
    }
  }
}

G16 void trees(float *y, const g16 *acc, int outs) {
  if (outs == 4)
    g16_tree4(y, acc[0], acc[1], acc[2], acc[3]);
  else
    for (int o = 0; o < outs; o++)
      y[o] = g16_tree(acc[o]);
}

/* The counts, and whether weights are fetched, are constants where this is inlined. */
G16 void run_block(const block *b, int rows, int outs, bool fetches) {
  const block at = *b;
  g16 acc[ROWS][OUTS];
  UNROLL
  for (int r = 0; r < rows; r++)
    UNROLL
  for (int o = 0; o < outs; o++)
    acc[r][o] = at.k0 == 0 ? g16_zero() : at.saved[r][o];
  int k = at.k0;
  for (const float *next = at.next; k + 16 <= at.k1; k += 16, next += at.ahead) {
    if (fetches)
      g16_fetch_to_l2(next);
    step(acc, &at, k, 16, rows, outs);
  }
  if (k < at.k1)
    step(acc, &at, k, at.k1 - k, rows, outs);
  UNROLL
  for (int r = 0; r < rows; r++)
    if (at.k1 == at.columns) {
      trees(at.y + r * at.y_stride, acc[r], outs);
    } else {
      UNROLL
      for (int o = 0; o < outs; o++)
        at.saved[r][o] = acc[r][o];
    }
}

/* The slab's outputs for one block of samples and one part of the columns. */
G16 void run_part(block b, g16 (*saved)[ROWS][OUTS], int rows, int outs, bool fetches) {
  for (; outs > 0; saved++) {
    b.saved = *saved;
    const int now = outs >= OUTS ? OUTS : outs >= 2 ? 2 : 1;
    if (outs >= OUTS)
      run_block(&b, rows, OUTS, fetches);
    else if (OUTS > 2 && outs >= 2)
      run_block(&b, rows, 2, fetches);
    else
      run_block(&b, rows, 1, fetches);
    outs -= now;
    b.y += now;
    b.w += (int64_t)now * b.columns;
    b.next += steps_of(&b) * b.ahead;
  }
}

/* A block of samples and a slab of outputs. */
G16 void run_rows(const block *first, int rows, int outs, bool fetches) {
  const int columns = first->columns, parts = (columns + PART_COLUMNS - 1) / PART_COLUMNS;
  const int width = ((columns + parts - 1) / parts + 15) / 16 * 16;
  g16 saved[SLAB_BLOCKS + 1][ROWS][OUTS];
  block b = *first;
  for (b.k0 = 0; b.k0 < columns; b.k0 = b.k1) {
    b.k1 = b.k0 + width < columns ? b.k0 + width : columns;
    run_part(b, saved, rows, outs, fetches);
    b.next += steps_of(&b) * b.ahead * ((outs + OUTS - 1) / OUTS);
  }
}

#define RUN_ROWS(count)                                                                                                \
  case count:                                                                                                          \
    if (count <= ROWS && b.ahead)                                                                                      \
      run_rows(&b, count, outs, true);                                                                                 \
    else if (count <= ROWS)                                                                                            \
      run_rows(&b, count, outs, false);                                                                                \
    break

/* What each step fetches at most: a line. */
enum { LINE = 16 };

/* All samples, in blocks as even as they can be, and a slab of outputs. fetches: each block of samples also fetches a
 * share of the next slab's weights, until all are. */
static void run_slab(const hd_call *call, int j, int outs, bool fetches) {
  block b = {.x = call->in[0],
             .w = (const float *)call->in[1] + (int64_t)j * call->g->ci,
             .y = (float *)call->out[0] + j,
             .x_stride = call->in_stride[0],
             .y_stride = call->out_stride[0],
             .columns = call->g->ci};
  const int64_t all = (call->rows + ROWS - 1) / ROWS, even = (LINE * OUTS + all - 1) / all;
  const int ahead = even < LINE ? (int)even : LINE;
  const int64_t share = (int64_t)b.columns / 16 * ahead * ((outs + OUTS - 1) / OUTS);
  int64_t left = call->rows, unfetched = fetches && all > 1 ? (int64_t)outs * b.columns : 0;
  b.next = b.w + (int64_t)outs * b.columns;
  for (int64_t blocks = all; blocks > 0; blocks--, unfetched -= share) {
    b.ahead = unfetched > 0 ? ahead : 0;
    const int rows = (int)((left + blocks - 1) / blocks);
    switch (rows) {
      RUN_ROWS(1);
      RUN_ROWS(2);
      RUN_ROWS(3);
      RUN_ROWS(4);
      RUN_ROWS(5);
      RUN_ROWS(6);
    }
    b.x += rows * b.x_stride;
    b.y += rows * b.y_stride;
    b.next += share;
    left -= rows;
  }
}

static void finish_row(float *y, const float *bias, int outs, int relu) {
  for (int j = 0; j < outs; j += 16) {
    g16 v = g16_load_some(y + j, outs - j);
    if (bias)
      v = g16_add(v, g16_load_some(bias + j, outs - j));
    g16_store_some(y + j, relu ? g16_relu(v) : v, outs - j);
  }
}

static void linear_outputs(const hd_call *call, int32_t j0, int32_t j1) {
  const float *bias = call->in[2] ? (const float *)call->in[2] + j0 : NULL;
  const int fitting = SLAB_ELEMS / call->g->ci / OUTS;
  const int slab = OUTS * (fitting > SLAB_BLOCKS ? SLAB_BLOCKS : fitting > 0 ? fitting : 1);
  const bool large = (int64_t)(j1 - j0) * call->g->ci >= FETCH_ELEMS;
  for (int j = j0; j < j1; j += slab)
    run_slab(call, j, j1 - j < slab ? j1 - j : slab, large && j + slab < j1);
  for (int64_t n = 0; n < call->rows && (bias || call->g->relu); n++)
    finish_row(out_row(call, 0, n) + j0, bias, j1 - j0, call->g->relu);
}

static void linear(const hd_call *call) { linear_outputs(call, 0, call->g->co); }

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
  table->run_outputs[HD_OP_linear] = linear_outputs;
  table->run[HD_OP_linear_dx] = linear_dx;
}
