/* The gradient of a linear layer's weight in bfloat16, formed from activations inside the reduction over shards; see
 * linear_form_cpu.h for the walk over shards and its stack, and bf16.h for the chain. With AMX bf16_form_amx.c does it
 * where its scratch allows.
 *
 * Shards have few samples, so this is FMA in registers. A block is a few outputs by groups along the inputs;
 * samples are rounded once for all outputs: columns of x into a panel, outputs of dy into lines. Where a batch is too
 * large for these they are rounded when they are read. */
#include "kernel/bf16/bf16_tiles.h"

enum { GROUPS = BF16_FORM_GROUPS, MOST_OUTPUTS = BF16_FORM_OUTPUTS };
enum { PANEL_ROWS = 256, AT_ONCE = 48 }; /* samples of a panel; outputs whose dy is rounded at a time */

/* The current columns of the rectangle, and its outputs j to j + outputs - 1. */
typedef struct block {
  const hd_form *form;
  const float *x, *dy;
  int64_t x_stride, dy_stride;
  int64_t first; /* the sample of their first rows */
  float *out;
  int left; /* columns */
} block;

typedef g16 sums[MOST_OUTPUTS][GROUPS];

G16 void clear(sums sum, int outputs, int groups) {
  UNROLL_FOR (r, outputs)
    UNROLL_FOR (q, groups)
      sum[r][q] = g16_zero();
}

/* sum = fma(dy, x, sum) for one sample, whose x and dy these are. */
G16 void add_sample(sums sum, const float *x, const float *dy, int outputs, int groups, int rounded) {
  g16 xv[GROUPS];
  UNROLL_FOR (q, groups)
    xv[q] = rounded ? g16_load(x + q * TILE_SIDE) : g16_bf16(g16_load(x + q * TILE_SIDE));
  UNROLL_FOR (r, outputs) {
    const g16 d = g16_all(rounded ? dy[r] : bf16_round(dy[r]));
    UNROLL_FOR (q, groups)
      sum[r][q] = g16_fma(d, xv[q], sum[r][q]);
  }
}

/* The sums of even and odd samples of a block of the chain, n to end - 1. */
G16 void sum_block(sums even, sums odd, const block *b, int64_t n, int64_t end, int outputs, int groups, int rounded) {
  const float *x = b->x + (n - b->first) * b->x_stride, *dy = b->dy + (n - b->first) * b->dy_stride;
  clear(even, outputs, groups);
  clear(odd, outputs, groups);
  for (; n + 1 < end; n += 2, x += 2 * b->x_stride, dy += 2 * b->dy_stride) {
    add_sample(even, x, dy, outputs, groups, rounded);
    add_sample(odd, x + b->x_stride, dy + b->dy_stride, outputs, groups, rounded);
  }
  if (n < end)
    add_sample(even, x, dy, outputs, groups, rounded);
}

/* A shard of one block. The padding zeros could only change a -0, which + 0 does as well. */
G16 void short_chain(sums sum, const block *b, int64_t n, int64_t end, int outputs, int groups, int rounded) {
  sums odd;
  sum_block(sum, odd, b, n, end, outputs, groups, rounded);
  UNROLL_FOR (r, outputs)
    UNROLL_FOR (q, groups)
      sum[r][q] = g16_add(g16_add(sum[r][q], odd[r][q]), g16_zero());
}

/* A shard of any number of blocks. The last one may end with zeros, which matter where a sum underflowed to -0. */
G16 void long_chain(sums acc, const block *b, int64_t n, int64_t end, int outputs, int groups, int rounded) {
  clear(acc, outputs, groups);
  for (; n < end; n += BF16_DEPTH) {
    const bool full = n + BF16_DEPTH <= end;
    sums even, odd;
    sum_block(even, odd, b, n, full ? n + BF16_DEPTH : end, outputs, groups, rounded);
    UNROLL_FOR (r, outputs)
      UNROLL_FOR (q, groups) {
        const g16 e = full ? even[r][q] : g16_add(even[r][q], g16_zero());
        const g16 o = full ? odd[r][q] : g16_add(odd[r][q], g16_zero());
        acc[r][q] = g16_add(acc[r][q], g16_add(e, o));
      }
  }
}

/* Counts, and whether shards are longer than a block, are constants where this is inlined. */
G16 void form_block(const block *b, int outputs, int groups, int longer, int rounded) {
  _Alignas(64) float stack[HD_MAX_REDUCTION_DEPTH][MOST_OUTPUTS * GROUPS * TILE_SIDE];
  hd_walk w = hd__reduction_walk(b->form->reduction);
  while (hd__walk_push(&w)) {
    sums acc;
    if (longer)
      long_chain(acc, b, w.step->row0, w.step->row1, outputs, groups, rounded);
    else
      short_chain(acc, b, w.step->row0, w.step->row1, outputs, groups, rounded);
    while (hd__walk_merge(&w))
      UNROLL_FOR (r, outputs)
        UNROLL_FOR (q, groups)
          acc[r][q] = g16_add(g16_load(stack[w.top] + (r * groups + q) * TILE_SIDE), acc[r][q]);
    UNROLL_FOR (r, outputs)
      UNROLL_FOR (q, groups)
        g16_store(stack[w.top] + (r * groups + q) * TILE_SIDE, acc[r][q]);
  }
  for (int r = 0; r < outputs; r++)
    for (int q = 0; q < groups; q++)
      g16_store_some(b->out + r * b->form->out_ld + q * TILE_SIDE, g16_load(stack[0] + (r * groups + q) * TILE_SIDE),
                     b->left - q * TILE_SIDE);
}

#define OUTPUTS(count)                                                                                                 \
  case count:                                                                                                          \
    if (count <= MOST_OUTPUTS && groups <= GROUPS)                                                                     \
      form_block(b, count, groups, longer, rounded);                                                                   \
    break
G16 void form_outputs(const block *b, int outputs, int groups, int longer, int rounded) {
  switch (outputs) { CASES_6(OUTPUTS) }
}

/* Not inlined: the values that the caller keeps in registers would displace those that these need. */
typedef void form_fn(const block *b, int outputs);
#define FORM(name, groups, longer, rounded)                                                                            \
  static __attribute__((noinline)) void name(const block *b, int outputs) {                                            \
    form_outputs(b, outputs, groups, longer, rounded);                                                                 \
  }
FORM(short_one, 1, 0, 1)
FORM(short_two, 2, 0, 1)
FORM(long_one, 1, 1, 0)
FORM(long_two, 2, 1, 0)

/* Short shards of a batch that fits are rounded before; all others when they are read. */
static form_fn *form_for(int groups, bool rounded) {
  return rounded ? groups > 1 ? short_two : short_one : groups > 1 ? long_two : long_one;
}

static bool has_short_shards(const hd_form *f) {
  for (int i = 0; i < f->reduction->count; i++)
    if (f->reduction->step[i].row1 - f->reduction->step[i].row0 > BF16_DEPTH)
      return false;
  return true;
}

/* The samples of the reduction: its first, and how many. */
static int64_t samples_of(const hd_form *f) {
  return f->reduction->step[f->reduction->count - 1].row1 - f->reduction->step[0].row0;
}

/* Rounds this many columns of all samples, into lines of 16 * groups that have room for them. */
static void round_samples(float *to, const float *from, int64_t stride, int64_t samples, int groups, int columns) {
  for (int64_t n = 0; n < samples; n++, from += stride, to += groups * TILE_SIDE)
    for (int q = 0; q < columns; q += TILE_SIDE)
      g16_store(to + q, g16_bf16(g16_load_some(from + q, columns - q)));
}

/* Outputs j to j + outputs - 1 of a rectangle; their dy, rounded, or NULL. */
typedef struct lines {
  const float *rounded;
  int j, outputs;
} lines;

/* These outputs, in blocks as even as they can be, of columns k to k + 16 * groups - 1 that exist. */
static void form_columns(const hd_form *f, const lines *l, int k, int groups) {
  _Alignas(64) float x[PANEL_ROWS * GROUPS * TILE_SIDE];
  const int64_t first = f->reduction->step[0].row0;
  const float *const columns = f->x + first * f->x_stride + k;
  block b = {.form = f, .x = columns, .x_stride = f->x_stride, .dy_stride = f->dy_stride, .first = first};
  form_fn *const run = form_for(groups, l->rounded);
  b.left = f->k1 - k;
  if (l->rounded) {
    round_samples(x, columns, f->x_stride, samples_of(f), groups, least(b.left, groups * TILE_SIDE));
    b.x = x;
    b.x_stride = (int64_t)groups * TILE_SIDE;
    b.dy_stride = AT_ONCE;
  }
  for (int done = 0, left = (l->outputs + MOST_OUTPUTS - 1) / MOST_OUTPUTS; left > 0; left--) {
    const int outputs = (l->outputs - done + left - 1) / left;
    b.dy = l->rounded ? l->rounded + done : f->dy + first * f->dy_stride + l->j + done;
    b.out = f->out + (l->j + done - f->j0) * f->out_ld + (k - f->k0);
    run(&b, outputs);
    done += outputs;
  }
}

static void form_weight(const hd_form *f) {
  _Alignas(64) float dy[PANEL_ROWS * AT_ONCE];
  const bool rounded = samples_of(f) <= PANEL_ROWS && has_short_shards(f);
  for (int j = f->j0; j < f->j1; j += AT_ONCE) {
    const lines l = {rounded ? dy : NULL, j, least(AT_ONCE, f->j1 - j)};
    if (rounded)
      round_samples(dy, f->dy + f->reduction->step[0].row0 * f->dy_stride + j, f->dy_stride, samples_of(f),
                    AT_ONCE / TILE_SIDE, l.outputs);
    for (int k = f->k0; k < f->k1; k += GROUPS * TILE_SIDE)
      form_columns(f, &l, k, least(GROUPS, (int)tiles_of(f->k1 - k)));
  }
}

#if HD_ISA_IS(amx)
static bool form_by_tiles(const hd_form *f) { return HD_SYM(bf16_form_tiles)(f); }
#else
static bool form_by_tiles(const hd_form *f) { return false; }
#endif

static void form(const hd_form *f) {
  if (f->output > 0)
    float_kernels()->form[HD_OP_linear_dw](f);
  else if (!form_by_tiles(f))
    form_weight(f);
}

void HD_SYM(bf16_form_fill)(hd_kernels *table) {
  table->form[HD_OP_linear_dw] = form;
#if HD_ISA_IS(amx)
  table->form_rows[HD_OP_linear_dw] = TILE_SIDE;
  table->form_columns[HD_OP_linear_dw] = BF16_FORM_COLUMNS;
  table->form_scratch_bytes[HD_OP_linear_dw] = HD_SYM(bf16_form_scratch);
#endif
}
