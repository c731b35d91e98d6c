/* The gradient of a linear layer's weight in bfloat16, formed inside the reduction over shards by AMX; see bf16.h for
 * the chain.
 *
 * A shard's sums of 16 outputs by two panels of 16 inputs are a product of tiles, whose depth is the shard's samples.
 * Shards have few of them, so tiles are only as deep as the longest shard's pairs, and what takes time is storing the
 * sums: up to four neighbouring shards are stored, then added as the reduction adds them, in registers, before the
 * stack in L1 sees them.
 *
 * The inputs of a rectangle are rounded once for all its outputs, and for those of the next rectangles; a strip of
 * outputs is rounded and transposed once for all inputs. */
#include "kernel/bf16/bf16_tiles.h"

enum { MOST_TERMS = 4, PAIR_ELEMS = 2 * TILE_SIDE, SUMS = TILE_SIDE * 2 * TILE_SIDE }; /* of a shard */

/* The inputs' pairs of a rectangle take at most as much: more would not stay in the caches. */
enum { MOST_INPUT_BYTES = 4 << 20 };

/* What is summed in one pair of tiles: a shard, or two neighbours, of so many tiles of the depth; then `merges`
 * additions. */
typedef struct term {
  int32_t shards, tiles, merges;
} term;

/* Up to four terms that are added before others: one, a + b, or (a + b) + (c + d); then the stack's `merges` topmost
 * entries. */
typedef struct term_group {
  int32_t terms, merges;
} term_group;

/* Depth of tiles in pairs of samples: as many as the longest shard needs, of at most a block. */
typedef struct depth {
  int pairs;
  int64_t all_pairs; /* of one column, over all tiles of all shards */
} depth;

static int32_t shard_tiles(const hd_reduction_step *s) { return (int32_t)blocks_of(s->row1 - s->row0); }

static depth depth_of(const hd_reduction *r) {
  int64_t longest = 0, tiles = 0;
  for (const hd_reduction_step *s = r->step; s < r->step + r->count; s++) {
    longest = s->row1 - s->row0 > longest ? s->row1 - s->row0 : longest;
    tiles += shard_tiles(s);
  }
  depth d = {.pairs = (int)(fewest(longest, BF16_DEPTH) + 1) / 2};
  d.all_pairs = tiles * d.pairs;
  return d;
}

/* Tiles of columns of a rectangle, at most. */
static int64_t most_panels(const hd_geom *g) { return tiles_of(least(g->ci, BF16_FORM_COLUMNS)); }

static int64_t most_pairs(const hd_geom *g) { return MOST_INPUT_BYTES / (most_panels(g) * elem_bytes(PAIR_ELEMS)); }

/* A batch's shards differ by at most one sample, so that there are no more pairs than samples. */
int64_t HD_SYM(bf16_form_scratch)(const hd_geom *g, int64_t rows) {
  return fewest(rows, most_pairs(g)) * elem_bytes(PAIR_ELEMS) * (1 + most_panels(g));
}

/* Two shards of a tile each whose sums are added first are one term: the second one's c + (even + odd) adds them. */
static int terms_of(term *t, const hd_reduction *r) {
  int count = 0;
  for (int i = 0; i < r->count; i += t[count++].shards) {
    const hd_reduction_step *s = r->step + i;
    const bool two = i + 1 < r->count && !s[0].merges && s[1].merges > 0 && shard_tiles(s) + shard_tiles(s + 1) == 2;
    t[count] = two ? (term){2, 2, s[1].merges - 1} : (term){1, shard_tiles(s), s[0].merges};
  }
  return count;
}

static int groups_of(term_group *group, const term *t, int terms) {
  int count = 0;
  for (int left = terms; left > 0; left -= group[count].terms, t += group[count++].terms)
    if (left >= 4 && !t[0].merges && t[1].merges == 1 && !t[2].merges && t[3].merges >= 2)
      group[count] = (term_group){4, t[3].merges - 2};
    else if (left >= 2 && !t[0].merges && t[1].merges > 0)
      group[count] = (term_group){2, t[1].merges - 1};
    else
      group[count] = (term_group){1, t[0].merges};
  return count;
}

/* Columns of samples, `stride` apart, of which 16 at most are taken. */
typedef struct columns {
  const float *first;
  int64_t stride, count;
} columns;

/* Samples from n on, so many, by pairs: pair i is line i of the tile. Pairs beyond the samples are zero. */
static void put_pairs(bf16_elem *tile, const columns *of, int64_t n, int64_t samples, int pairs) {
  const float *from = of->first + n * of->stride;
  for (int i = 0; i < pairs; i++, from += 2 * of->stride, samples -= 2) {
    if (samples >= 2) {
      tile_put_depths(tile, 2 * i, from, from + of->stride, of->count);
      continue;
    }
    memset(tile + i * PAIR_ELEMS, 0, PAIR_ELEMS * sizeof *tile);
    if (samples == 1)
      tile_put_depth(tile, 2 * i, from, of->count);
  }
}

/* The same as a tile of A: row j has column j's pairs. */
static void put_columns(bf16_elem *tile, const columns *of, int64_t n, int64_t samples, int pairs) {
  _Alignas(64) bf16_elem lines[TILE_ELEMS];
  g16 r[TILE_SIDE];
  memset(lines, 0, sizeof lines);
  put_pairs(lines, of, n, samples, pairs);
  UNROLL_FOR (i, TILE_SIDE)
    r[i] = g16_load((const float *)(const void *)(lines + i * PAIR_ELEMS));
  g16_transpose(r);
  UNROLL_FOR (j, TILE_SIDE)
    g16_store_some((float *)(void *)(tile + j * pairs * 2), r[j], pairs);
}

typedef void put_tile_fn(bf16_elem *tile, const columns *of, int64_t n, int64_t samples, int pairs);

/* The tiles of some columns, of all shards. */
static void put_shards(bf16_elem *to, const hd_reduction *r, const depth *d, const columns *of, put_tile_fn *put) {
  for (const hd_reduction_step *s = r->step; s < r->step + r->count; s++)
    for (int64_t n = s->row0; n < s->row1; n += BF16_DEPTH, to += d->pairs * PAIR_ELEMS)
      put(to, of, n, s->row1 - n, d->pairs);
}

/* The product of a strip of outputs and two panels of inputs: `columns` of them exist, and `rows` outputs. */
typedef struct product {
  const bf16_elem *a, *b; /* b: of the first panel */
  int64_t tile, panel;    /* elements from a tile of a column's to the next, and from the first panel to the second */
  int a_line;             /* bytes of a row of A */
  float *out;
  int64_t out_ld;
  int rows;
  int64_t columns;
} product;

/* The sums of the next term, of registers c0 and c1 by way of a0, 6 and 7; `a`, `b`, `t` and `sum` advance. The numbers
 * of registers must be constants. */
#define TERM(c0, c1, a0)                                                                                               \
  do {                                                                                                                 \
    _tile_zero(c0);                                                                                                    \
    _tile_zero(c1);                                                                                                    \
    for (int64_t k = (t++)->tiles; k > 0; k--, a += p->tile, b += p->tile) {                                           \
      _tile_loadd(a0, a, p->a_line);                                                                                   \
      _tile_loadd(6, b, 64);                                                                                           \
      _tile_dpbf16ps(c0, a0, 6);                                                                                       \
      _tile_loadd(7, b + p->panel, 64);                                                                                \
      _tile_dpbf16ps(c1, a0, 7);                                                                                       \
    }                                                                                                                  \
    _tile_stored(c0, sum, 2 * 64);                                                                                     \
    _tile_stored(c1, sum + TILE_SIDE, 2 * 64);                                                                         \
    sum += SUMS;                                                                                                       \
  } while (0)

/* A group whose terms are stored and not yet added: to `to`, in rows of two panels `to_row` apart. top: above the
 * stack's topmost entry. */
typedef struct pending {
  const float *sum, *top;
  float *to;
  int64_t to_row;
  int terms, merges;
} pending;

G16 g16 sum_of(const float *at, int terms) {
  if (terms == 1)
    return g16_load(at);
  if (terms == 2)
    return g16_add(g16_load(at), g16_load(at + SUMS));
  return g16_add(g16_add(g16_load(at), g16_load(at + SUMS)), g16_add(g16_load(at + 2 * SUMS), g16_load(at + 3 * SUMS)));
}

G16 void add_terms(const pending *p, int first, int rows, int terms) {
  const float *sum = p->sum + first * 2 * TILE_SIDE, *top = p->top + first * 2 * TILE_SIDE;
  float *to = p->to + first * p->to_row;
  for (int r = 0; r < rows; r++, sum += 2 * TILE_SIDE, top += 2 * TILE_SIDE, to += p->to_row) {
    g16 v = sum_of(sum, terms), w = sum_of(sum + TILE_SIDE, terms);
    for (int64_t m = 1; m <= p->merges; m++) {
      v = g16_add(g16_load(top - m * SUMS), v);
      w = g16_add(g16_load(top - m * SUMS + TILE_SIDE), w);
    }
    g16_store(to, v);
    g16_store(to + TILE_SIDE, w);
  }
}

G16 void add_rows(const pending *p, int first, int rows) {
  if (p->terms == 4)
    add_terms(p, first, rows, 4);
  else if (p->terms == 2)
    add_terms(p, first, rows, 2);
  else if (p->terms == 1)
    add_terms(p, first, rows, 1);
}

/* Terms of the current group and of the one before it, and the stack. */
typedef struct memory {
  _Alignas(64) float sums[2][MOST_TERMS * SUMS], stack[(HD_MAX_REDUCTION_DEPTH + 1) * SUMS];
} memory;

/* The next tiles, and the next term. */
typedef struct cursor {
  const bf16_elem *a, *b;
  const term *t;
} cursor;

/* Computes a group's terms; meanwhile adds those of the group before, a part after each term, so that neither waits for
 * the other. */
G16 void compute_group(const product *p, cursor *next, float *sum, int terms, const pending *before) {
  const bf16_elem *a = next->a, *b = next->b;
  const term *t = next->t;
  const int part = TILE_SIDE / terms;
  TERM(0, 1, 4);
  add_rows(before, 0, part);
  if (terms > 1) {
    TERM(2, 3, 5);
    add_rows(before, part, part);
  }
  if (terms > 2) {
    TERM(0, 1, 4);
    add_rows(before, 2 * part, part);
    TERM(2, 3, 5);
    add_rows(before, 3 * part, part);
  }
  *next = (cursor){a, b, t};
}

/* Ends with rows or columns that do not exist, from the bottom of the stack. */
static void write_some(const product *p, const float *sum) {
  for (int r = 0; r < p->rows; r++)
    for (int q = 0; q < 2 && q * TILE_SIDE < p->columns; q++)
      g16_store_some(p->out + r * p->out_ld + q * TILE_SIDE, g16_load(sum + (2 * r + q) * TILE_SIDE),
                     p->columns - q * TILE_SIDE);
}

/* Returns the last group, whose additions are left for the next product. */
static pending form_panels(const product *p, const term *t, const term_group *group, int groups, memory *m,
                           pending before) {
  cursor next = {p->a, p->b, t};
  float *top = m->stack;
  for (int g = 0; g < groups; g++) {
    float *const sums = before.sum == m->sums[0] ? m->sums[1] : m->sums[0];
    compute_group(p, &next, sums, group[g].terms, &before);
    float *const to = top - group[g].merges * SUMS;
    before = (pending){sums, top, to, 2 * TILE_SIDE, group[g].terms, group[g].merges};
    top = to + SUMS;
  }
  if (p->rows == TILE_SIDE && p->columns >= 2 * TILE_SIDE) {
    before.to = p->out;
    before.to_row = p->out_ld;
    return before;
  }
  add_rows(&before, 0, TILE_SIDE);
  write_some(p, m->stack);
  return (pending){0};
}

/* What all products of a rectangle share. */
typedef struct plan {
  depth d;
  term terms[HD_MAX_SHARDS];
  term_group group[HD_MAX_SHARDS];
  int groups;
  bf16_elem *a, *b; /* of a strip; of all panels */
} plan;

static int64_t columns_of(const hd_form *f) { return f->k1 - f->k0; }

static bool make_plan(plan *p, const hd_form *f) {
  const hd_reduction *r = f->reduction;
  const int64_t samples = r->step[r->count - 1].row1 - r->step[0].row0;
  p->d = depth_of(r);
  if (p->d.all_pairs > fewest(samples, most_pairs(f->g)))
    return false;
  p->groups = groups_of(p->group, p->terms, terms_of(p->terms, r));
  p->a = f->scratch;
  p->b = p->a + p->d.all_pairs * PAIR_ELEMS;
  return true;
}

static void round_inputs(const plan *p, const hd_form *f) {
  for (int64_t k = 0; k < columns_of(f); k += TILE_SIDE) {
    const columns panel = {f->x + f->k0 + k, f->x_stride, columns_of(f) - k};
    put_shards(p->b + k / TILE_SIDE * p->d.all_pairs * PAIR_ELEMS, f->reduction, &p->d, &panel, put_pairs);
  }
}

/* Outputs j to j + 15, as many as there are. */
static pending form_strip(const plan *p, const hd_form *f, int j, memory *m, pending before) {
  const int64_t panel = p->d.all_pairs * PAIR_ELEMS;
  product of = {.a = p->a,
                .tile = p->d.pairs * PAIR_ELEMS,
                .a_line = 4 * p->d.pairs,
                .out_ld = f->out_ld,
                .rows = least(TILE_SIDE, f->j1 - j)};
  const columns outputs = {f->dy + j, f->dy_stride, f->j1 - j};
  put_shards(p->a, f->reduction, &p->d, &outputs, put_columns);
  for (int64_t k = 0; k < columns_of(f); k += 2 * TILE_SIDE) {
    of.columns = columns_of(f) - k;
    of.b = p->b + k / TILE_SIDE * panel;
    of.panel = of.columns > TILE_SIDE ? panel : 0;
    of.out = f->out + (j - f->j0) * f->out_ld + k;
    before = form_panels(&of, p->terms, p->group, p->groups, m, before);
  }
  return before;
}

bool HD_SYM(bf16_form_tiles)(const hd_form *f) {
  plan p;
  memory m;
  pending before = {0};
  if (!make_plan(&p, f))
    return false;
  if (!f->again)
    round_inputs(&p, f);
  tiles_begin_of(p.d.pairs);
  for (int j = f->j0; j < f->j1; j += TILE_SIDE)
    before = form_strip(&p, f, j, &m, before);
  add_rows(&before, 0, TILE_SIDE);
  tiles_end();
  return true;
}
