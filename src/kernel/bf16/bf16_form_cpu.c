/* The gradient of a linear layer's weight in bfloat16, formed from activations inside the reduction over shards; see
 * linear_form_cpu.h for the walk over shards and its stack, and bf16.h for the chain. With AMX bf16_form_amx.c does it
 * where its scratch allows.
 *
 * Shards have few samples, so this is FMA in registers. A block is a few outputs by groups along the inputs;
 * samples are rounded once for all outputs: columns of x into a panel, outputs of dy into lines. Where a batch is too
 * large for these they are rounded when they are read. */
#include "kernel/bf16/bf16_tiles.h"

enum { GROUPS = BF16_FORM_GROUPS, MOST_OUTPUTS = BF16_FORM_OUTPUTS };
/* Samples of a panel; bytes of all panels that are kept while the next rows are formed; outputs whose dy is rounded at
 * a time; samples of a short shard, 0: it has no way of its own, and outputs at a time there. */
enum { PANEL_ROWS = 256, KEPT_BYTES = 1 << 20, AT_ONCE = 48, QUAD = GROUPS == 1 ? 4 : 0, QUAD_OUTPUTS = 24 };

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
G16 void short_chain(sums sum, const block *b, int64_t n, int64_t end, int outputs, int groups) {
  sums odd;
  sum_block(sum, odd, b, n, end, outputs, groups, 1);
  UNROLL_FOR (r, outputs)
    UNROLL_FOR (q, groups)
      sum[r][q] = g16_add(g16_add(sum[r][q], odd[r][q]), g16_zero());
}

/* A shard of any number of blocks. The last one may end with zeros, which matter where a sum underflowed to -0. */
G16 void long_chain(sums acc, const block *b, int64_t n, int64_t end, int outputs, int groups) {
  clear(acc, outputs, groups);
  for (; n < end; n += BF16_DEPTH) {
    const bool full = n + BF16_DEPTH <= end;
    sums even, odd;
    sum_block(even, odd, b, n, full ? n + BF16_DEPTH : end, outputs, groups, 0);
    UNROLL_FOR (r, outputs)
      UNROLL_FOR (q, groups) {
        const g16 e = full ? even[r][q] : g16_add(even[r][q], g16_zero());
        const g16 o = full ? odd[r][q] : g16_add(odd[r][q], g16_zero());
        acc[r][q] = g16_add(acc[r][q], g16_add(e, o));
      }
  }
}

/* Counts are constants where this is inlined, and so is whether shards may be longer than a block; x and dy of short
 * ones are rounded before. */
G16 void form_block(const block *b, int outputs, int groups, int longer) {
  _Alignas(64) float stack[HD_MAX_REDUCTION_DEPTH][MOST_OUTPUTS * GROUPS * TILE_SIDE];
  hd_walk w = hd__reduction_walk(b->form->reduction);
  while (hd__walk_push(&w)) {
    sums acc;
    if (longer)
      long_chain(acc, b, w.step->row0, w.step->row1, outputs, groups);
    else
      short_chain(acc, b, w.step->row0, w.step->row1, outputs, groups);
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
      form_block(b, count, groups, longer);                                                                            \
    break
G16 void form_outputs(const block *b, int outputs, int groups, int longer) {
  switch (outputs) { CASES_6(OUTPUTS) }
}

/* A shard of at most QUAD samples, whose x stay in registers for all outputs: adds the entries below to its sums, and
 * stores these in place of the lowest. A sample that is missing is one of zeros, and the first product of a chain is
 * not added to +0: as in short_chain, + 0 at the end makes up for both. */
G16 void form_quad(float *to, const block *b, const hd_walk *w, int outputs) {
  static const float zeros[AT_ONCE];
  const int64_t n = w->step->row0 - b->first, samples = w->step->row1 - w->step->row0;
  const float *dy[4];
  g16 x[4];
  UNROLL_FOR (i, 4) {
    dy[i] = i < samples ? b->dy + (n + i) * b->dy_stride : zeros;
    x[i] = i < samples ? g16_load(b->x + (n + i) * b->x_stride) : g16_zero();
  }
  for (int r = 0; r < outputs; r++, to += TILE_SIDE) {
    const g16 even = g16_fma(g16_all(dy[2][r]), x[2], g16_mul(g16_all(dy[0][r]), x[0]));
    const g16 odd = g16_fma(g16_all(dy[3][r]), x[3], g16_mul(g16_all(dy[1][r]), x[1]));
    g16 sum = g16_add(g16_add(even, odd), g16_zero());
    float *at = to;
    for (int m = 0; m < w->merges; m++)
      sum = g16_add(g16_load(at -= QUAD_OUTPUTS * TILE_SIDE), sum);
    g16_store(at, sum);
  }
}

static void form_quads(const block *b, int outputs) {
  _Alignas(64) float stack[HD_MAX_REDUCTION_DEPTH][QUAD_OUTPUTS * TILE_SIDE];
  for (hd_walk w = hd__reduction_walk(b->form->reduction); hd__walk_push(&w); w.top -= w.merges)
    form_quad(stack[w.top], b, &w, outputs);
  for (int r = 0; r < outputs; r++)
    g16_store_some(b->out + r * b->form->out_ld, g16_load(stack[0] + r * TILE_SIDE), b->left);
}

/* Not inlined: the values that the caller keeps in registers would displace those that these need. */
typedef void form_fn(const block *b, int outputs);
#define FORM(name, groups, longer)                                                                                     \
  static __attribute__((noinline)) void name(const block *b, int outputs) { form_outputs(b, outputs, groups, longer); }
FORM(short_one, 1, 0)
FORM(short_two, 2, 0)
FORM(long_one, 1, 1)
FORM(long_two, 2, 1)

/* Outputs j to j + outputs - 1 of a rectangle; their dy, rounded, or NULL; samples of the longest shard. */
typedef struct lines {
  const float *rounded;
  int j, outputs, longest;
} lines;

/* Short shards of a batch that fits are rounded before; all others when they are read. */
static form_fn *form_for(int groups, const lines *l) {
  form_fn *const short_form = l->longest <= QUAD ? form_quads : groups > 1 ? short_two : short_one;
  return l->rounded ? short_form : groups > 1 ? long_two : long_one;
}

static int longest_shard(const hd_form *f) {
  int longest = 0;
  for (const hd_reduction_step *at = f->reduction->step; at < f->reduction->step + f->reduction->count; at++)
    longest = at->row1 - at->row0 > longest ? at->row1 - at->row0 : longest;
  return longest;
}

/* The samples of the reduction: its first, and how many. */
static int64_t samples_of(const hd_form *f) {
  return f->reduction->step[f->reduction->count - 1].row1 - f->reduction->step[0].row0;
}

static int64_t panels_bytes(int columns, int64_t samples) {
  return tiles_of(columns + TILE_SIDE) * TILE_SIDE * samples * (int64_t)sizeof(float);
}

/* Rounds this many columns of all samples, into lines of 16 * groups that have room for them. */
static void round_samples(float *to, const float *from, int64_t stride, int64_t samples, int groups, int columns) {
  for (int64_t n = 0; n < samples; n++, from += stride, to += groups * TILE_SIDE)
    for (int q = 0; q < columns; q += TILE_SIDE)
      g16_store(to + q, g16_bf16(g16_load_some(from + q, columns - q)));
}

/* Whether panels of all columns stay in scratch, for the next rows as well; with AMX it is for tiles. */
static bool keeps_panels(const hd_form *f) {
  return !HD_ISA_IS(amx) && panels_bytes(f->k1 - f->k0, samples_of(f)) <= KEPT_BYTES;
}

/* These outputs, in blocks as even as they can be, of columns k to k + 16 * groups - 1 that exist. */
static void form_columns(const hd_form *f, const lines *l, int k, int groups) {
  _Alignas(64) float panel[PANEL_ROWS * GROUPS * TILE_SIDE];
  const int64_t first = f->reduction->step[0].row0;
  float *const x = keeps_panels(f) ? (float *)f->scratch + (k - f->k0) * samples_of(f) : panel;
  const float *const columns = f->x + first * f->x_stride + k;
  block b = {.form = f, .x = columns, .x_stride = f->x_stride, .dy_stride = f->dy_stride, .first = first};
  form_fn *const run = form_for(groups, l);
  const int most = run == form_quads ? QUAD_OUTPUTS : MOST_OUTPUTS;
  b.left = f->k1 - k;
  if (l->rounded) {
    if (x == panel || (l->j == f->j0 && !f->again))
      round_samples(x, columns, f->x_stride, samples_of(f), groups, least(b.left, groups * TILE_SIDE));
    b.x = x;
    b.x_stride = (int64_t)groups * TILE_SIDE;
    b.dy_stride = AT_ONCE;
  }
  for (int done = 0, left = (l->outputs + most - 1) / most; left > 0; left--) {
    const int outputs = (l->outputs - done + left - 1) / left;
    b.dy = l->rounded ? l->rounded + done : f->dy + first * f->dy_stride + l->j + done;
    b.out = f->out + (l->j + done - f->j0) * f->out_ld + (k - f->k0);
    run(&b, outputs);
    done += outputs;
  }
}

static void form_weight(const hd_form *f) {
  _Alignas(64) float dy[PANEL_ROWS * AT_ONCE];
  const int longest = longest_shard(f);
  const bool rounded = samples_of(f) <= PANEL_ROWS && longest <= BF16_DEPTH;
  for (int j = f->j0; j < f->j1; j += AT_ONCE) {
    const lines l = {rounded ? dy : NULL, j, least(AT_ONCE, f->j1 - j), longest};
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
static int64_t scratch_bytes(const hd_geom *g, int64_t rows) {
  const int64_t bytes = panels_bytes(g->ci, rows);
  return bytes < KEPT_BYTES ? bytes : KEPT_BYTES;
}
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
#else
  table->form_scratch_bytes[HD_OP_linear_dw] = scratch_bytes;
#endif
}
