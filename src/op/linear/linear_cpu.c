/* The linear layer, in register blocks, and the gradient of its input, a product of matrices.
 *
 * Forward: an output is 16 interleaved chains over k in one group, so a block of ROWS samples by OUTS outputs keeps
 * that many groups in registers for one pass over k (with AVX2 half of each group, for two passes); loads of x and w
 * are shared over the block. An element's chain does not depend on its block, so a tail of samples or outputs runs the
 * same code with smaller constants.
 *
 * A slab of outputs, whose weights stay in the second-level cache, is computed for all samples before the next.
 * There the block's samples stay in the first-level cache while the slab's weights stream; long sums are computed in
 * parts for the same reason, and the slab's chains are stored between parts. Where whole rows of few outputs fill a
 * slab, so that all samples would be read again for each of many slabs, it holds some columns of more outputs. Bias and
 * ReLU follow in whole groups. */
#include "kernel/cpu/blocks.h"
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

enum { ROWS = LINEAR_ROWS, OUTS = LINEAR_OUTS, COPIED = LINEAR_COPIED, PARTS = 16 / G16_PART };

/* A slab: 640 KB of weights, and at most as many blocks as there is room to store chains for. From FETCH_ELEMS weights
 * on, 2 MB, the next slab is not in a core's caches yet. Where it would hold whole rows of fewer than FEWEST_OUTS
 * outputs, it holds WIDE_COLUMNS of WIDE_OUTS, for WIDE_ROW_BLOCKS blocks of samples at a time. */
enum { PART_COLUMNS = 1024, SLAB_ELEMS = 160 << 10, SLAB_BLOCKS = 32, FETCH_ELEMS = 512 << 10, FEWEST_OUTS = 16 };
enum { WIDE_OUTS = 48, WIDE_COLUMNS = SLAB_ELEMS / WIDE_OUTS / PART_COLUMNS * PART_COLUMNS };
enum { LINE = 16 /* what each step fetches at most */ };
enum { WIDE_BLOCKS = WIDE_OUTS / OUTS + 1, WIDE_ROW_BLOCKS = 8, SAVED_BLOCKS = WIDE_ROW_BLOCKS * WIDE_BLOCKS };

/* Some outputs of some samples, for one part of the columns: rows of x, w and y from the first one on. */
typedef struct block {
  const float *x, *w;
  float *y;
  int64_t x_stride, y_stride;
  const float *groups; /* of x: the part's first one, in place or copied, */
  int64_t row, step;   /* and how far from there to the next sample's and to the next columns' */
  int columns;         /* of x and w; rows of w are contiguous */
  int k0, k1;          /* the part's */
  g16 (*saved)[OUTS];  /* chains of an earlier part, ROWS for each block */
  const float *next;   /* weights that are fetched meanwhile, */
  int ahead;           /* so many elements further in each step; 0: none are */
} block;

static inline int64_t steps_of(const block *b) { return (b->k1 - b->k0) / 16; }

/* A part of the chains along whole groups. */
G16 void run_groups(g16 (*acc)[OUTS], const block *b, int part, int rows, int outs, bool fetches) {
  const block at = *b;
  g16_part sums[ROWS][OUTS], wv[OUTS];
  UNROLL_FOR (r, rows)
    UNROLL_FOR (j, outs)
      sums[r][j] = g16_part_of(at.k0 == 0 ? g16_zero() : at.saved[r][j], part);
  const int64_t row = at.row, step = COPIED > 0 ? at.step : 16;
  const float *next = at.next, *x = at.groups + G16_PART * part, *w = at.w + G16_PART * part;
  for (int k = at.k0; k + 16 <= at.k1; k += 16, x += step, next += at.ahead) {
    if (fetches && part == PARTS - 1)
      g16_fetch_to_l2(next);
    UNROLL_FOR (j, outs)
      wv[j] = g16_part_load(w + (int64_t)j * at.columns + k);
    UNROLL_FOR (r, rows) {
      const g16_part xv = g16_part_load(x + r * row);
      UNROLL_FOR (j, outs)
        sums[r][j] = g16_part_fma(xv, wv[j], sums[r][j]);
    }
  }
  UNROLL_FOR (r, rows)
    UNROLL_FOR (j, outs)
      acc[r][j] = g16_with_part(acc[r][j], part, sums[r][j]);
}

/* The last lanes. The others keep their chains untouched: adding 0 * 0 would turn a -0 into +0. */
G16 void run_tail(g16 (*acc)[OUTS], const block *b, int k, int rows, int outs) {
  const g16_mask mask = g16_first(b->k1 - k);
  UNROLL_FOR (r, rows)
    UNROLL_FOR (j, outs) {
      const g16 xv = g16_load_mask(b->x + r * b->x_stride + k, mask);
      const g16 sum = g16_fma(xv, g16_load_mask(b->w + (int64_t)j * b->columns + k, mask), acc[r][j]);
      acc[r][j] = g16_choose(mask, sum, acc[r][j]);
    }
}

G16 void trees(float *y, const g16 *acc, int outs) {
  if (outs == 4)
    g16_tree4(y, acc[0], acc[1], acc[2], acc[3]);
  for (int o = 0; outs != 4 && o < outs; o++)
    y[o] = g16_tree(acc[o]);
}

/* The counts, and whether weights are fetched, are constants where this is inlined. */
G16 void run_block(const block *b, int rows, int outs, bool fetches) {
  g16 local[ROWS][OUTS], (*const acc)[OUTS] = PARTS == 1 ? local : b->saved;
  UNROLL_FOR (part, PARTS)
    run_groups(acc, b, part, rows, outs, fetches);
  const int tail = b->k0 + (b->k1 - b->k0) / 16 * 16;
  if (tail < b->k1)
    run_tail(acc, b, tail, rows, outs);
  UNROLL_FOR (r, rows)
    if (b->k1 == b->columns) {
      trees(b->y + r * b->y_stride, acc[r], outs);
    } else if (PARTS == 1) {
      UNROLL_FOR (o, outs)
        b->saved[r][o] = acc[r][o];
    }
}

/* The slab's outputs for one block of samples and one part of the columns. */
G16 void run_part(block b, int rows, int outs, bool fetches) {
  for (; outs > 0; b.saved += ROWS) {
    const int now = outs >= OUTS && (OUTS != 3 || outs != 4) ? OUTS : outs >= 2 ? 2 : 1; /* 4: better 2, 2 than 3, 1 */
    if (now == OUTS)
      run_block(&b, rows, OUTS, fetches);
    else if (OUTS > 2 && now == 2)
      run_block(&b, rows, 2, fetches);
    else
      run_block(&b, rows, 1, fetches);
    outs -= now;
    b.y += now;
    b.w += (int64_t)now * b.columns;
    b.next += steps_of(&b) * b.ahead;
  }
}

/* A part of the samples, of each group of columns all samples, to where rows that lie a power of two apart do not meet
 * in few sets of the cache. */
G16 void copy_part(block *b, float *copy, int rows) {
  b->groups = copy, b->row = 16, b->step = 16 * rows;
  for (int k = b->k0; k + 16 <= b->k1; k += 16, copy += 16 * rows)
    UNROLL_FOR (r, rows)
      g16_store(copy + 16 * r, g16_load(b->x + r * b->x_stride + k));
}

/* A block of samples and a slab, its columns in parts. */
G16 void run_rows(const block *slab, int rows, int outs, bool fetches) {
  const int columns = slab->k1 - slab->k0, parts = (columns + PART_COLUMNS - 1) / PART_COLUMNS;
  const int width = ((columns + parts - 1) / parts + 15) / 16 * 16;
  _Alignas(64) float copy[COPIED > 0 ? PART_COLUMNS * ROWS : 1];
  block b = *slab;
  for (; b.k0 < slab->k1; b.k0 = b.k1) {
    b.k1 = b.k0 + width < slab->k1 ? b.k0 + width : slab->k1;
    b.groups = b.x + b.k0, b.row = b.x_stride, b.step = 16;
    if (COPIED > 0 && outs >= COPIED)
      copy_part(&b, copy, rows);
    run_part(b, rows, outs, fetches);
    b.next += steps_of(&b) * b.ahead * ((outs + OUTS - 1) / OUTS);
  }
}

#define RUN_ROWS(count)                                                                                                \
  case count:                                                                                                          \
    if (count <= ROWS && b.ahead)                                                                                      \
      run_rows(&b, count <= ROWS ? count : 1, outs, true);                                                             \
    else if (count <= ROWS)                                                                                            \
      run_rows(&b, count <= ROWS ? count : 1, outs, false);                                                            \
    break

/* Outputs from j on of samples from n on, for some columns. */
typedef struct slab {
  int64_t n, rows;
  int j, outs, k0, k1;
} slab;

/* Its samples in blocks as even as they can be. fetches: each block of samples also fetches a share of the next slab's
 * weights, until all are. */
static void run_slab(const hd_call *call, const slab *s, g16 (*saved)[OUTS], bool fetches) {
  block b = {.x = in_row(call, 0, s->n),
             .w = (const float *)call->in[1] + (int64_t)s->j * call->g->ci,
             .y = out_row(call, 0, s->n) + s->j,
             .x_stride = call->in_stride[0],
             .y_stride = call->out_stride[0],
             .columns = call->g->ci,
             .k0 = s->k0,
             .k1 = s->k1,
             .saved = saved};
  const int64_t all = (s->rows + ROWS - 1) / ROWS, even = (LINE * OUTS + all - 1) / all;
  const int ahead = even < LINE ? (int)even : LINE, outs = s->outs, is_whole = s->k1 - s->k0 == b.columns;
  const int64_t share = (int64_t)b.columns / 16 * ahead * ((outs + OUTS - 1) / OUTS);
  int64_t left = s->rows, unfetched = fetches && all > 1 ? (int64_t)outs * b.columns : 0;
  b.next = b.w + (int64_t)outs * b.columns;
  for (int64_t blocks = all; blocks > 0; blocks--, unfetched -= share) {
    b.ahead = unfetched > 0 ? ahead : 0;
    const int rows = (int)((left + blocks - 1) / blocks);
    switch (rows) { CASES_6(RUN_ROWS) }
    b.x += rows * b.x_stride;
    b.y += rows * b.y_stride;
    b.next += share;
    b.saved += is_whole ? 0 : WIDE_BLOCKS * ROWS;
    left -= rows;
  }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Outputs j0 to j1 - 1 by slabs: of whole rows, or of some columns, for as many samples at a time as chains can be
 * stored for. */
static void run_slabs(const hd_call *call, int j0, int j1) {
  const int columns = call->g->ci, fitting = SLAB_ELEMS / columns, is_wide = fitting < FEWEST_OUTS;
  const int64_t outs = is_wide ? WIDE_OUTS : least(fitting / OUTS, SLAB_BLOCKS) * OUTS,
                width = is_wide ? WIDE_COLUMNS : columns;
  const int64_t rows = is_wide ? WIDE_ROW_BLOCKS * ROWS : call->rows;
  const bool fetches = !is_wide && (int64_t)(j1 - j0) * columns >= FETCH_ELEMS;
  g16 saved[SAVED_BLOCKS * ROWS][OUTS];
  slab s = {.j = j0};
  for (; s.j < j1; s.j += s.outs) {
    s.outs = (int)least(outs, j1 - s.j);
    for (s.n = 0; s.n < call->rows; s.n += s.rows) {
      s.rows = least(rows, call->rows - s.n);
      for (s.k0 = 0; s.k0 < columns; s.k0 = s.k1) {
        s.k1 = (int)least(s.k0 + width, columns);
        run_slab(call, &s, saved, fetches && s.j + s.outs < j1);
      }
    }
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
  run_slabs(call, j0, j1);
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
