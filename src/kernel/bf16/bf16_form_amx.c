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

/* Inputs' pairs take at most as much; a larger batch is not worth it. */
enum { MOST_INPUT_BYTES = 4 << 20 };

/* What is summed in one pair of tiles: a shard, or two neighbours; then `merges` additions. */
typedef struct term {
  int32_t step, shards, merges;
} term;

/* Up to four terms that are added before others: one, a + b, or (a + b) + (c + d); then the stack's `merges` topmost
 * entries. */
typedef struct term_group {
  int32_t terms, merges;
} term_group;

/* Depth of tiles in pairs of samples, and tiles of a shard: as many as the longest shard needs. */
typedef struct depth {
  int pairs;
  int64_t blocks, all_pairs; /* of one column, over all shards */
} depth;

static depth depth_of(const hd_reduction *r) {
  int64_t longest = 0;
  for (int i = 0; i < r->count; i++) {
    const int64_t rows = r->step[i].row1 - r->step[i].row0;
    longest = rows > longest ? rows : longest;
  }
  depth d = {.blocks = blocks_of(longest)};
  d.pairs = d.blocks > 1 ? BF16_DEPTH / 2 : (int)(longest + 1) / 2;
  d.all_pairs = r->count * d.blocks * d.pairs;
  return d;
}

/* Bytes of the pairs of this many columns, in tiles. */
static int64_t pairs_bytes(int64_t pairs, int64_t columns) {
  return elem_bytes(pairs * PAIR_ELEMS) * tiles_of(columns);
}

/* A batch's shards differ by at most one sample, so that there are no more pairs than samples. */
int64_t HD_SYM(bf16_form_scratch)(const hd_geom *g, int64_t rows) {
  const int64_t inputs = pairs_bytes(rows, g->ci);
  return inputs <= MOST_INPUT_BYTES ? inputs + pairs_bytes(rows, TILE_SIDE) : 0;
}

/* Shards of one tile whose sums are added first are one term: c + (even + odd) of the second one is that addition. */
static int terms_of(term *t, const hd_reduction *r, const depth *d) {
  const hd_reduction_step *s = r->step;
  int count = 0;
  for (int i = 0; i < r->count; i += t[count++].shards)
    if (d->blocks == 1 && i + 1 < r->count && !s[i].merges && s[i + 1].merges > 0)
      t[count] = (term){i, 2, s[i + 1].merges - 1};
    else
      t[count] = (term){i, 1, s[i].merges};
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

/* Samples n to end - 1 of up to 16 columns, by pairs: pair i is line i of the tile. */
static void put_pairs(bf16_elem *tile, const float *from, int64_t stride, int64_t samples, int64_t columns, int pairs) {
  for (int i = 0; i < pairs; i++, from += 2 * stride, samples -= 2) {
    if (samples >= 2)
      tile_put_depths(tile, 2 * i, from, from + stride, columns);
    else if (samples == 1)
      tile_put_depths(tile, 2 * i, from, from, columns), g16_store((float*)(void*)(tile + 2 * i * TILE_SIDE), _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(tile + 2 * i * TILE_SIDE), _mm512_set1_epi32(0xffff))));
    else
      memset(tile + i * PAIR_ELEMS, 0, PAIR_ELEMS * sizeof *tile);
  }
}

typedef void put_tile_fn(bf16_elem *tile, const float *from, int64_t stride, int64_t samples, int64_t columns,
                         int pairs);

/* The tiles of up to 16 columns, of all shards. */
static void put_shards(bf16_elem *to, const hd_reduction *r, const depth *d, const float *from, int64_t stride,
                       int64_t columns, put_tile_fn *put) {
  for (int i = 0; i < r->count; i++) {
    const int64_t row0 = r->step[i].row0, rows = r->step[i].row1 - row0;
    for (int64_t k = 0; k < d->blocks; k++, to += d->pairs * PAIR_ELEMS)
      put(to, from + (row0 + k * BF16_DEPTH) * stride, stride, rows - k * BF16_DEPTH, columns, d->pairs);
  }
}

/* The same as a tile of A: row j has column j's pairs. */
static void put_columns(bf16_elem *tile, const float *from, int64_t stride, int64_t samples, int64_t columns,
                        int pairs) {
  _Alignas(64) bf16_elem lines[TILE_ELEMS];
  g16 r[TILE_SIDE];
  memset(lines, 0, sizeof lines);
  put_pairs(lines, from, stride, samples, columns, pairs);
  UNROLL_FOR (i, TILE_SIDE)
    r[i] = g16_load((const float *)(const void *)(lines + i * PAIR_ELEMS));
  g16_transpose(r);
  UNROLL_FOR (j, TILE_SIDE)
    g16_store_some((float *)(void *)(tile + j * pairs * 2), r[j], pairs);
}

static void shape_tiles(int pairs) {
  struct __attribute__((packed)) {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shape.rows[i] = (uint8_t)(i < 6 ? TILE_SIDE : pairs);
    shape.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? 4 * pairs : 64);
  }
  _tile_loadconfig(&shape);
}

/* What a strip's products need. */
typedef struct strip {
  const bf16_elem *a, *b; /* b: of the first panel */
  int64_t a_tile, b_panel;
  int a_line;
  int64_t blocks;
  float *out;
  int64_t out_ld;
  int rows;
  int64_t columns;
} strip;

/* The sums of a shard: tiles c and c + 1, a, 6 and 7. */
#define TERM(c0, c1, a0)                                                                                              \
  do {                                                                                                                 \
    _tile_zero(c0);                                                                                                    \
    _tile_zero(c1);                                                                                                    \
    for (int64_t k = s->blocks * (t++)->shards; k > 0; k--, a += s->a_tile, b += s->a_tile) {                                          \
      _tile_loadd(a0, a, s->a_line);                                                                                   \
      _tile_loadd(6, b, 64);                                                                                           \
      _tile_dpbf16ps(c0, a0, 6);                                                                                       \
      _tile_loadd(7, b + s->b_panel, 64);                                                                              \
      _tile_dpbf16ps(c1, a0, 7);                                                                                       \
    }                                                                                                                  \
    _tile_stored(c0, sum, 128);                                                                                        \
    _tile_stored(c1, sum + TILE_SIDE, 128);                                                                            \
    sum += SUMS;                                                                                                       \
  } while (0)

/* A group whose terms are stored and not yet added: to `to`, in rows of two panels `to_row` apart. top: above the stack's
 * topmost entry. */
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

typedef struct memory {
  _Alignas(64) float sums[2][MOST_TERMS * SUMS], stack[(HD_MAX_REDUCTION_DEPTH + 1) * SUMS];
} memory;

static pending form_panels(const strip *s, const term *t, const term_group *group, int groups, memory *m, pending last) {
  const bf16_elem *a = s->a, *b = s->b;
  float *top = m->stack;
  for (int g = 0; g < groups; g++) {
    float *const first = last.sum == m->sums[0] ? m->sums[1] : m->sums[0], *sum = first;
    const int terms = group[g].terms, merges = group[g].merges;
    TERM(0, 1, 4);
    if (terms == 1)
      add_rows(&last, 0, 16);
    else {
      add_rows(&last, 0, terms == 2 ? 8 : 4);
    TERM(2, 3, 5);
      add_rows(&last, terms == 2 ? 8 : 4, terms == 2 ? 8 : 4);
    if (terms > 2) {
      TERM(0, 1, 4);
      add_rows(&last, 8, 4);
      TERM(2, 3, 5);
      add_rows(&last, 12, 4);
    }
    }
    float *const to = top - merges * SUMS;
    last = (pending){first, top, to, 2 * TILE_SIDE, terms, merges};
    top = to + SUMS;
  }
  if (s->rows == TILE_SIDE && s->columns >= 2 * TILE_SIDE) {
    last.to = s->out;
    last.to_row = s->out_ld;
    return last;
  }
  add_rows(&last, 0, TILE_SIDE);
  for (int r = 0; r < s->rows; r++)
    for (int q = 0; q < 2; q++)
      if (s->columns > q * TILE_SIDE)
        g16_store_some(s->out + r * s->out_ld + q * TILE_SIDE, g16_load(m->stack + (2 * r + q) * TILE_SIDE),
                       s->columns - q * TILE_SIDE);
  return (pending){.terms = 0};
}

bool HD_SYM(bf16_form_tiles)(const hd_form *f) {
  term terms[HD_MAX_SHARDS];
  term_group group[HD_MAX_SHARDS];
  const hd_reduction *r = f->reduction;
  const depth d = depth_of(r);
  const int64_t samples = r->step[r->count - 1].row1 - r->step[0].row0;
  if (HD_SYM(bf16_form_scratch)(f->g, samples) == 0 || d.all_pairs > samples)
    return false;
  const int64_t b_panel = d.all_pairs * PAIR_ELEMS, panels = tiles_of(f->k1 - f->k0);
  bf16_elem *a = f->scratch, *b = a + elem_bytes(d.all_pairs * PAIR_ELEMS) / 2;
  const int groups = groups_of(group, terms, terms_of(terms, r, &d));
  for (int64_t p = 0; p < panels && !f->again; p++)
    put_shards(b + p * b_panel, r, &d, f->x + f->k0 + p * TILE_SIDE, f->x_stride, f->k1 - f->k0 - p * TILE_SIDE,
               put_pairs);
  memory m;
  pending last = {.terms = 0};
  shape_tiles(d.pairs);
  for (int j = f->j0; j < f->j1; j += TILE_SIDE) {
    put_shards(a, r, &d, f->dy + j, f->dy_stride, f->j1 - j, put_columns);
    strip s = {.a = a,
               .a_tile = d.pairs * PAIR_ELEMS,
               .a_line = 4 * d.pairs,
               .blocks = d.blocks,
               .out_ld = f->out_ld,
               .rows = least(TILE_SIDE, f->j1 - j)};
    for (int64_t p = 0; p < panels; p += 2) {
      s.b = b + p * b_panel;
      s.b_panel = p + 1 < panels ? b_panel : 0;
      s.out = f->out + (j - f->j0) * f->out_ld + p * TILE_SIDE;
      s.columns = f->k1 - f->k0 - p * TILE_SIDE;
      last = form_panels(&s, terms, group, groups, &m, last);
    }
  }
  add_rows(&last, 0, TILE_SIDE);
  tiles_end();
  return true;
}
