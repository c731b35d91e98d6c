/* The gradient of a linear layer's weight, formed from activations inside the reduction over shards.
 *
 * A block of a few outputs j by groups along k stays in registers. Per step of the reduction it runs through the
 * samples of the shard, ascending, as REDUCE does; a load of x serves all j. Then it is merged with the entries
 * below it on a small stack that stays in L1: each merge adds the topmost entry to the registers, then the block is
 * pushed. The lower entry is the left operand, as in every reduction. With enough registers two neighbouring shards
 * are computed one after the other and merged before the push: a store of 64 bytes takes the time of two FMA. All
 * outputs are computed for the block's columns of x, which stay in L1, before the next columns.
 *
 * Where a block has one group, many rows of x and dy of which it reads 64 and 24 bytes do not stay in L1: dy of a strip
 * of outputs is copied in the order in which its blocks read it, then x of each group.
 *
 * Rows of x are read in whole groups: their slots are padded. The chains of a shifted layer start from a number for
 * each shard and output; those of others from +0. */
#pragma once

#include "kernel/cpu/blocks.h"
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

enum { FILL = FORM_FILL, PAIR_FILL = FORM_PAIR_FILL, GROUPS = FORM_GROUPS };
enum { MAX_ROWS = FILL < 8 ? FILL : 8, SAMPLES = 4 };

/* From one step to the next in `start`. */
enum { STARTS = 64 };

/* Outputs whose gradients are copied together; the fewest, and the fewest numbers of x, for which copies pay. */
enum { STRIP = FORM_STRIP, FEWEST_OUTPUTS = 32, FEWEST_INPUTS = 256 << 10 };

/* A block of the result: where its first output and column are in the first row of x and dy and in the result. */
typedef struct block {
  const float *x, *dy;
  int64_t x_stride, dy_stride;
  const hd_reduction *reduction;
  const float *start; /* shifted: what the chains of the block's outputs start from, for each step */
  float *out;
  int64_t out_ld;
  int left; /* columns in the last group */
} block;

typedef g16 sums[MAX_ROWS][GROUPS];

G16 void sample(sums acc, const float *x, const float *dy, int rows, int groups) {
  g16 xv[GROUPS];
  UNROLL_FOR (v, groups)
    xv[v] = g16_held(g16_load(x + 16 * v));
  UNROLL_FOR (r, rows) {
    g16 d = g16_all(dy[r]);
    UNROLL_FOR (v, groups)
      acc[r][v] = GROUPS == 1 ? g16_held(g16_fma(d, xv[v], acc[r][v])) : g16_fma(d, xv[v], acc[r][v]);
  }
}

/* The position of a block in the samples, and in the starts of the chains. */
typedef struct cursor {
  const float *x, *dy, *start;
  int64_t x_stride, dy_stride;
} cursor;

/* One shard's chains: from the start or +0; samples ascending: acc = fma(dy[j], x[k], acc). The first four in one
 * go. */
G16 void shard(sums acc, cursor *at, int samples, int rows, int groups, int shifted) {
  UNROLL_FOR (r, rows)
    UNROLL_FOR (v, groups)
      acc[r][v] = shifted ? g16_all(at->start[r]) : g16_zero();
  at->start += shifted ? STARTS : 0;
  if (samples >= SAMPLES) {
    UNROLL_FOR (n, SAMPLES)
      sample(acc, at->x, at->dy, rows, groups), at->x += at->x_stride, at->dy += at->dy_stride;
    samples -= SAMPLES;
  }
  for (; samples > 0; samples--, at->x += at->x_stride, at->dy += at->dy_stride)
    sample(acc, at->x, at->dy, rows, groups);
}

G16 void add_right(sums acc, const sums right, int rows, int groups) {
  UNROLL_FOR (r, rows)
    UNROLL_FOR (v, groups)
      acc[r][v] = g16_add(acc[r][v], right[r][v]);
}

/* Adds the topmost entry of the stack to the registers. */
G16 float *merge(sums acc, float *top, int rows, int groups) {
  top -= rows * groups * 16;
  UNROLL_FOR (r, rows)
    UNROLL_FOR (v, groups)
      acc[r][v] = g16_add(g16_load(top + 16 * (r * groups + v)), acc[r][v]);
  return top;
}

G16 float *push(const sums acc, float *top, int rows, int groups) {
  UNROLL_FOR (r, rows)
    UNROLL_FOR (v, groups)
      g16_store(top + 16 * (r * groups + v), acc[r][v]);
  return top + rows * groups * 16;
}

/* A sum ends by adding +0 if it is shifted. */
G16 void write_out(const block *b, const sums acc, int rows, int groups, int shifted) {
  UNROLL_FOR (r, rows) {
    float *out = b->out + r * b->out_ld;
    UNROLL_FOR (v, groups - 1)
      g16_store(out + 16 * v, shifted ? g16_add(acc[r][v], g16_zero()) : acc[r][v]);
    const g16 last = acc[r][groups - 1];
    g16_store_some(out + 16 * (groups - 1), shifted ? g16_add(last, g16_zero()) : last, b->left);
  }
}

/* The samples of the current push; found by `next`, so that `step` takes no register. */
G16 int step_rows(const hd_walk *w) { return w->next[-1].row1 - w->next[-1].row0; }

/* Counts are constants where this is inlined. */
G16 void form_block(const block *b, int rows, int groups, int shifted) {
  _Alignas(64) float stack[HD_MAX_REDUCTION_DEPTH * FILL * 16];
  float *top = stack; /* above entry w.top */
  hd_walk w = hd__reduction_walk(b->reduction);
  cursor at = {b->x, b->dy, b->start, b->x_stride, b->dy_stride};
  sums acc;
  for (hd__walk_push(&w);; hd__walk_push(&w)) {
    shard(acc, &at, step_rows(&w), rows, groups, shifted);
    if (rows * groups <= PAIR_FILL && w.merges == 0 && w.next < w.end && w.next->merges > 0) {
      sums right;
      hd__walk_push(&w);
      hd__walk_merge(&w);
      shard(right, &at, step_rows(&w), rows, groups, shifted);
      add_right(acc, right, rows, groups);
    }
    while (hd__walk_merge(&w))
      top = merge(acc, top, rows, groups);
    if (w.next == w.end)
      break;
    top = push(acc, top, rows, groups);
  }
  write_out(b, acc, rows, groups, shifted);
}

#define ROWS(count)                                                                                                    \
  case count:                                                                                                          \
    if (count <= MAX_ROWS && count <= FILL / groups)                                                                   \
      form_block(b, count, groups, shifted);                                                                           \
    break

/* `groups` is a constant where this is inlined. */
G16 void form_rows(const block *b, int rows, int groups, int shifted) {
  switch (rows) { CASES_8(ROWS) }
}

/* Forms a block of this many groups of columns. Not inlined: the values that the caller keeps in registers would
 * displace those that this needs. */
typedef void form_fn(const block *b, int rows);

#define FORM(groups, shifted)                                                                                          \
  static __attribute__((noinline)) void form_##groups(const block *b, int rows) { form_rows(b, rows, groups, shifted); }
#if HD_ISA_IS(avx512)
#define FORMS(shifted)                                                                                                 \
  FORM(1, shifted)                                                                                                     \
  FORM(2, shifted)                                                                                                     \
  FORM(3, shifted)                                                                                                     \
  static form_fn *const form_of[GROUPS + 1] = {NULL, form_1, form_2, form_3};
#else
#define FORMS(shifted)                                                                                                 \
  FORM(1, shifted)                                                                                                     \
  static form_fn *const form_of[GROUPS + 1] = {NULL, form_1};
#endif

/* Columns of the result, up to GROUPS groups: where the first is in the first row of x and in the result. dy: the
 * outputs' gradients of `samples` samples, copied (copy_dy); NULL: they are read in place. */
typedef struct columns {
  const float *x;
  int64_t x_stride;
  float *out;
  int64_t out_ld;
  int count;
  const float *dy;
  int64_t samples;
} columns;

/* The outputs of the next block of `left`, in blocks of at most `most` and as even as they can be. */
G16 int block_rows(int left, int most) {
  const int blocks = (left + most - 1) / most;
  return (left + blocks - 1) / blocks;
}

/* All outputs, in blocks, of some columns: their x stays in L1. start: of the first output in each step; NULL: +0. */
G16 void form_columns(const hd_form *f, const columns *c, const float *start, form_fn *const *form_of) {
  const hd_reduction_step *first = f->reduction->step;
  const int long_shard = start ? FORM_LONG_SHIFTED : FORM_LONG_SHARD;
  const int groups = (c->count + 15) / 16, fill = first->row1 - first->row0 < long_shard ? PAIR_FILL : FILL;
  const int most = fill / groups < MAX_ROWS ? fill / groups : MAX_ROWS;
  block b = {.x = c->x,
             .x_stride = c->x_stride,
             .dy_stride = f->dy_stride,
             .reduction = f->reduction,
             .out_ld = c->out_ld,
             .left = c->count - 16 * (groups - 1)};
  for (int j = f->j0, rows; j < f->j1; j += rows) {
    rows = block_rows(f->j1 - j, most);
    b.dy = c->dy ? c->dy + (j - f->j0) * c->samples : f->dy + first->row0 * f->dy_stride + j;
    b.dy_stride = c->dy ? rows : f->dy_stride;
    b.start = start ? start + (j - f->j0) : NULL;
    b.out = c->out + (j - f->j0) * c->out_ld;
    form_of[groups](&b, rows);
  }
}

G16 int64_t samples_of(const hd_reduction *r) { return r->step[r->count - 1].row1 - r->step->row0; }

/* Scratch for copies. */
G16 int64_t copies_bytes(int64_t samples) { return STRIP > 0 ? samples * (STRIP + 16) * (int64_t)sizeof(float) : 0; }

G16 int is_worth_copies(const hd_form *f, int inputs) {
  return STRIP > 0 && f->scratch && f->j1 - f->j0 >= FEWEST_OUTPUTS &&
         samples_of(f->reduction) * inputs >= FEWEST_INPUTS;
}

/* dy of the form's outputs, block after block, of each all samples. */
static inline void copy_dy(float *to, const hd_form *f) {
  const int64_t samples = samples_of(f->reduction);
  const float *first = f->dy + f->reduction->step->row0 * f->dy_stride;
  for (int j = f->j0, rows; j < f->j1; j += rows) {
    rows = block_rows(f->j1 - j, MAX_ROWS);
    for (int64_t n = 0; n < samples; n++, to += rows)
      for (int r = 0; r < rows; r++)
        to[r] = first[n * f->dy_stride + j + r];
  }
}

/* form_weight for some outputs, up to STRIP, from copies. */
G16 void form_strip(const hd_form *f, const float *x, const columns *all, const float *start, form_fn *const *form_of) {
  const int64_t samples = samples_of(f->reduction);
  float *group = f->scratch, *dy = group + 16 * samples;
  copy_dy(dy, f);
  for (int k = 0; k < all->count; k += 16) {
    for (int64_t n = 0; n < samples; n++)
      g16_store(group + 16 * n, g16_load(x + n * all->x_stride + k));
    form_columns(f,
                 &(columns){.x = group,
                            .x_stride = 16,
                            .out = all->out + k,
                            .out_ld = all->out_ld,
                            .count = all->count - k < 16 ? all->count - k : 16,
                            .dy = dy,
                            .samples = samples},
                 start, form_of);
  }
}

/* The columns k0 to k1 - 1, a multiple of 16 the first. x: the first row. */
G16 void form_weight(const hd_form *f, const float *x, int k0, int k1, const float *start, form_fn *const *form_of) {
  const int all = (k1 - k0 + 15) / 16;
  int k = k0;
  if (is_worth_copies(f, k1 - k0)) {
    hd_form some = *f;
    for (; some.j0 < f->j1; some.j0 = some.j1) {
      some.j1 = some.j0 + block_rows(f->j1 - some.j0, STRIP);
      form_strip(&some, x + k0,
                 &(columns){.x_stride = f->x_stride,
                            .out = f->out + (some.j0 - f->j0) * f->out_ld + (k0 - f->k0),
                            .out_ld = f->out_ld,
                            .count = k1 - k0},
                 start ? start + (some.j0 - f->j0) : NULL, form_of);
    }
    return;
  }
  for (int panels = (all + GROUPS - 1) / GROUPS; panels > 0; panels--) {
    const int groups = ((k1 - k + 15) / 16 + panels - 1) / panels, end = k + 16 * groups < k1 ? k + 16 * groups : k1;
    form_columns(
        f,
        &(columns){
            .x = x + k, .x_stride = f->x_stride, .out = f->out + (k - f->k0), .out_ld = f->out_ld, .count = end - k},
        start, form_of);
    k = end;
  }
}
