/* Attention and its gradient: blocks of queries, of which a few at a time stay in registers. Scores are groups along
 * the places, from keys that are transposed once for each head; sums over places, and over queries, are groups along
 * the channels of a head. Products of places that a query does not read are left out. A decoder keeps the transposed
 * keys of the places before the first query, in out[1]: key_heads x channels of a head x geom.attention.room. */
#include "kernel/cpu/mask16.h"
#include "op/softmax/softmax_cpu.h"

/* Rows whose sums stay in registers, and groups of each; queries of a block, whose scores stay in a near cache. */
#if HD_ISA_IS(avx512)
enum { ROWS = 8, GROUPS = 2 };
#elif HD_ISA_IS(neon)
enum { ROWS = 8, GROUPS = 1 };
#else
enum { ROWS = 4, GROUPS = 1 };
#endif
enum { BLOCK = 64 };

/* A head of a sample. */
typedef struct head {
  const hd_geom *g;
  const hd_draw *draw;
  uint32_t position;      /* of the sample, */
  int64_t number;         /* and its own: keys of random numbers */
  const float *q, *k, *v; /* of place 0 */
  int64_t places, padded, stride;
  int64_t step; /* from one row over places to the next, an odd number of cache lines: not all in few sets of a cache */
  int width;
  float scale;
} head;

static int64_t padded_places(const hd_geom *g) { return (pixels_of(g) + 15) / 16 * 16; }
static int64_t step_of(const hd_geom *g) {
  return padded_places(g) / 16 % 2 ? padded_places(g) : padded_places(g) + 16;
}
static int width_of(const hd_geom *g) { return g->co / g->attention.heads; }
static int64_t padded_width(const hd_geom *g) { return (width_of(g) + 15) / 16 * 16; }

static int64_t scratch_forward(const hd_geom *g) { return (width_of(g) + BLOCK) * step_of(g) * (int64_t)sizeof(float); }
static int64_t scratch_dx(const hd_geom *g) {
  return 2 * scratch_forward(g) + 2 * padded_places(g) * padded_width(g) * (int64_t)sizeof(float);
}

static int key_heads_of(const hd_geom *g) {
  return g->attention.key_heads ? g->attention.key_heads : g->attention.heads;
}

static head head_of(const hd_call *call, int64_t n, const float *x, int number) {
  const hd_geom *const g = call->g;
  const int width = width_of(g), key_head = number / (g->attention.heads / key_heads_of(g));
  const float *const k = x + g->co + key_head * width;
  return (head){.g = g,
                .draw = &call->draw,
                .position = call->draw.position + (uint32_t)n,
                .number = number,
                .q = x + number * width,
                .k = k,
                .v = k + key_heads_of(g) * width,
                .places = pixels_of(g),
                .padded = padded_places(g),
                .stride = g->ci,
                .step = step_of(g),
                .width = width,
                .scale = 1 / sqrtf((float)width)};
}

/* A query reads the places before this one. */
static int64_t reach_of(const head *h, int64_t place) { return h->g->attention.causal ? place + 1 : h->places; }

/* Queries first to end - 1, whose scores are rows one `step` apart. */
typedef struct block {
  int64_t first, end;
} block;

static block block_at(const head *h, int64_t first) {
  return (block){first, h->places - first < BLOCK ? h->places : first + BLOCK};
}

/* Some neighbouring queries of a block, the first of them number `first` of it: `count`, and the last one again for the
 * rest. */
typedef struct queries {
  int64_t first;
  int count;
  int64_t reach[ROWS]; /* ascending */
} queries;

G16 queries queries_of(const head *h, const block *b, int64_t first) {
  const int64_t place = b->first + first, left = b->end - place;
  queries q = {.first = first, .count = (int)(left < ROWS ? left : ROWS)};
  for (int i = 0; i < ROWS; i++)
    q.reach[i] = reach_of(h, place + (i < q.count ? i : q.count - 1));
  return q;
}

/* What was transposed: that of place j and channel k is first[k * step + j]. */
typedef struct turned {
  float *first;
  int64_t step;
} turned;

/* From from[j * stride + k], 0 behind the last place: squares of sixteen, from that of place `first` on. */
static void transpose(const turned *to, const float *from, int64_t first, const head *h) {
  for (int64_t j = first / 16 * 16; j < h->padded; j += 16)
    for (int k = 0; k < h->width; k += 16) {
      const int channels = h->width - k < 16 ? h->width - k : 16;
      g16 square[16];
      UNROLL_FOR (i, 16)
        square[i] = j + i < h->places ? g16_load_some(from + (j + i) * h->stride + k, channels) : g16_zero();
      g16_transpose(square);
      for (int i = 0; i < channels; i++)
        g16_store(to->first + (k + i) * to->step + j, square[i]);
    }
}

/* The products of some rows with `groups` groups of places from j on, groups being a constant. */
G16 void dots_of_groups(float *to, const float *const row[ROWS], const turned *across, int64_t j, const head *h,
                        int groups) {
  const float *first = across->first + j;
  g16 acc[ROWS][GROUPS];
  UNROLL_FOR (i, ROWS)
    UNROLL_FOR (q, groups)
      acc[i][q] = g16_zero();
  for (int k = 0; k < h->width; k++, first += across->step) {
    g16 of_places[GROUPS];
    UNROLL_FOR (q, groups)
      of_places[q] = g16_load(first + 16 * q);
    UNROLL_FOR (i, ROWS) {
      const g16 x = g16_all(row[i][k]);
      UNROLL_FOR (q, groups)
        acc[i][q] = g16_fma(x, of_places[q], acc[i][q]);
    }
  }
  UNROLL_FOR (i, ROWS)
    UNROLL_FOR (q, groups)
      g16_store(to + i * h->step + j + 16 * q, acc[i][q]);
}

/* to[i * step + j]: the chain over channels of row i, of query i of the block, and place j of what was transposed. */
static void dots(float *to, const float *rows, int64_t row_stride, const turned *across, const block *b,
                 const head *h) {
  for (int64_t j = 0; j < reach_of(h, b->end - 1); j += 16 * GROUPS)
    for (int64_t first = 0; first < b->end - b->first; first += ROWS) {
      const queries q = queries_of(h, b, first);
      const float *row[ROWS];
      for (int i = 0; i < ROWS; i++)
        row[i] = rows + (first + (i < q.count ? i : q.count - 1)) * row_stride;
      if (q.reach[ROWS - 1] > j + 16)
        dots_of_groups(to + first * h->step, row, across, j, h, GROUPS);
      else if (q.reach[ROWS - 1] > j)
        dots_of_groups(to + first * h->step, row, across, j, h, 1);
    }
}

/* Scores become e = exp(score - m); returns 1 / their sum. */
static float exponentials(float *s, int64_t reach, float scale) {
  g16 chains = g16_zero();
  for (int64_t j = 0; j < reach; j += 16)
    g16_store(s + j, g16_mul(g16_load(s + j), g16_all(scale)));
  const g16 m = g16_all(largest(s, (int)reach));
  for (int64_t j = 0; j < reach; j += 16) {
    const g16 e = g16_exp(g16_sub(g16_load(s + j), m));
    chains = g16_keep_tail(chains, g16_add(chains, e), reach - j);
    g16_store(s + j, e);
  }
  return 1 / g16_tree(chains);
}

/* ---- Dropout ---- */

/* The factors of 64 weights of a query, from place j on. */
static void draw_factors(float factor[64], const head *h, int64_t place, int64_t j) {
  const mask16 mask = mask16_of(h->draw, h->position, h->g->attention.dropout);
  mask16_factors(factor, &mask, (uint32_t)((h->number * h->places + place) * ((h->places + 3) / 4) + j / 4));
}

/* e = e * f of the places that a query reads. */
static void drop_weights(float *e, const head *h, int64_t place, int64_t reach) {
  float factor[64];
  for (int64_t j = 0; j < reach; j += 16) {
    if (j % 64 == 0)
      draw_factors(factor, h, place, j);
    g16_store(e + j, g16_mul(g16_load(e + j), g16_load(factor + j % 64)));
  }
}

/* Products of weights with rows that are added to sums: sums and rows lie this far apart, weights of a query `step`;
 * `left` channels. */
typedef struct addition {
  float *to;
  const float *weight, *rows;
  int64_t to_stride, step, row_stride;
  int left;
} addition;

/* Of some queries and `groups` groups of channels, a constant: sums over the places that each query reads. All read
 * those before the first one's reach; a causal query i reads i more. */
G16 void mix_groups(const addition *a, const float *factor, const queries *q, int groups) {
  const int64_t step = a->step;
  const int left = a->left;
  g16 acc[ROWS][GROUPS];
  UNROLL_FOR (i, ROWS)
    UNROLL_FOR (c, groups)
      acc[i][c] = g16_zero();
  for (int64_t j = 0; j < q->reach[0]; j++) {
    g16 row[GROUPS];
    UNROLL_FOR (c, groups)
      row[c] = g16_load_some(a->rows + j * a->row_stride + 16 * c, left - 16 * c);
    UNROLL_FOR (i, ROWS) {
      const g16 w = g16_all(a->weight[i * step + j]);
      UNROLL_FOR (c, groups)
        acc[i][c] = g16_fma(w, row[c], acc[i][c]);
    }
  }
  UNROLL
  for (int more = 1; more < ROWS; more++) {
    const int64_t j = q->reach[0] + more - 1;
    if (j >= q->reach[ROWS - 1])
      break;
    UNROLL_FOR (c, groups) {
      const g16 row = g16_load_some(a->rows + j * a->row_stride + 16 * c, left - 16 * c);
      UNROLL
      for (int i = more; i < ROWS; i++)
        acc[i][c] = g16_fma(g16_all(a->weight[i * step + j]), row, acc[i][c]);
    }
  }
  UNROLL_FOR (i, ROWS) {
    if (i == q->count)
      break;
    UNROLL_FOR (c, groups)
      g16_store_some(a->to + i * a->to_stride + 16 * c, g16_mul(acc[i][c], g16_all(factor[i])), left - 16 * c);
  }
}

/* Of each query: acc = +0; places ascending: acc = fma(weight, row, acc); to = acc * factor. Rows are `stride`
 * apart. */
static void mix(float *to, int64_t to_stride, const float *weight, const float *rows, const float *factor,
                const block *b, const head *h) {
  for (int k = 0; k < h->width; k += 16 * GROUPS)
    for (int64_t first = 0; first < b->end - b->first; first += ROWS) {
      const queries q = queries_of(h, b, first);
      const addition a = {
          to + first * to_stride + k, weight + first * h->step, rows + k, to_stride, h->step, h->stride, h->width - k};
      if (a.left > 16)
        mix_groups(&a, factor + first, &q, GROUPS);
      else
        mix_groups(&a, factor + first, &q, 1);
    }
}

/* ---- A single query: the next token of a text ---- */

enum { TOGETHER = 4 }; /* groups, whose chains hide each other's latency */

/* As `dots`, of one row. */
static void dots_of_one(float *to, const float *row, const turned *across, const head *h) {
  for (int64_t j = 0; j < h->padded; j += 16 * TOGETHER) {
    const int64_t left = (h->padded - j) / 16;
    const float *of_places[TOGETHER];
    g16 acc[TOGETHER];
    UNROLL_FOR (i, TOGETHER) {
      acc[i] = g16_zero();
      of_places[i] = across->first + j + (i < left ? 16 * i : 0);
    }
    for (int k = 0; k < h->width; k++) {
      UNROLL_FOR (i, TOGETHER)
        acc[i] = g16_fma(g16_all(row[k]), g16_load(of_places[i] + k * across->step), acc[i]);
    }
    for (int i = 0; i < TOGETHER && i < left; i++)
      g16_store(to + j + 16 * i, acc[i]);
  }
}

/* As `mix`, of one query: `groups` groups of channels, a constant, of which the last one has `channels`. */
G16 void mix_one(float *to, const float *weight, const float *rows, float factor, const head *h, int groups,
                 int channels) {
  g16 acc[TOGETHER];
  UNROLL_FOR (i, groups)
    acc[i] = g16_zero();
  for (int64_t j = 0; j < h->places; j++) {
    const g16 e = g16_all(weight[j]);
    UNROLL_FOR (i, groups)
      acc[i] = g16_fma(e, g16_load_some(rows + j * h->stride + 16 * i, i + 1 < groups ? 16 : channels), acc[i]);
  }
  UNROLL_FOR (i, groups)
    g16_store_some(to + 16 * i, g16_mul(acc[i], g16_all(factor)), i + 1 < groups ? 16 : channels);
}

static void mix_of_one(float *to, const float *weight, const float *rows, float factor, const head *h) {
  for (int k = 0; k < h->width; k += 16 * TOGETHER) {
    const int left = h->width - k, groups = left > 48 ? 4 : (left + 15) / 16;
    const int last = left > 64 ? 16 : left - 16 * (groups - 1);
    switch (groups) {
    case 1: mix_one(to + k, weight, rows + k, factor, h, 1, last); break;
    case 2: mix_one(to + k, weight, rows + k, factor, h, 2, last); break;
    case 3: mix_one(to + k, weight, rows + k, factor, h, 3, last); break;
    default: mix_one(to + k, weight, rows + k, factor, h, 4, last);
    }
  }
}

/* ---- Forward ---- */

/* The transposed keys of head `number`: of all places in scratch, or those from the first query on added to what is
 * kept, once for the heads that share them. */
static turned keys_of(const hd_call *call, const head *h, int number) {
  const hd_attention_geom *a = &call->g->attention;
  turned keys = {call->scratch, h->step};
  const int sharing = a->heads / key_heads_of(call->g);
  if (a->room > 0)
    keys = (turned){(float *)call->out[1] + (int64_t)(number / sharing) * h->width * a->room, a->room};
  const int64_t first = a->room > 0 ? a->first : 0;
  if (a->room == 0 || (number % sharing == 0 && first < h->places - 1))
    transpose(&keys, h->k, first, h);
  else if (number % sharing == 0)
    for (int k = 0; k < h->width; k++)
      keys.first[k * keys.step + first] = h->k[first * h->stride + k];
  return keys;
}

/* The last place alone. */
static void attend_once(float *y, const turned *keys, const head *h, float *s) {
  dots_of_one(s, h->q + (h->places - 1) * h->stride, keys, h);
  mix_of_one(y, s, h->v, exponentials(s, h->places, h->scale), h);
}

static void attend(float *y, const turned *keys, const head *h, float *s) {
  const int64_t first = h->g->attention.first;
  for (int64_t place = first; place < h->places; place += BLOCK) {
    const block b = block_at(h, place);
    float r[BLOCK + ROWS] = {0};
    dots(s, h->q + place * h->stride, h->stride, keys, &b, h);
    for (int64_t i = 0; i < b.end - place; i++) {
      r[i] = exponentials(s + i * h->step, reach_of(h, place + i), h->scale);
      if (h->g->attention.dropout > 0)
        drop_weights(s + i * h->step, h, place + i, reach_of(h, place + i));
    }
    mix(y + (place - first) * h->g->co, h->g->co, s, h->v, r, &b, h);
  }
}

static void attention(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int i = 0; i < g->attention.heads; i++) {
      const head h = head_of(call, n, in_row(call, 0, n), i);
      const turned keys = keys_of(call, &h, i);
      float *const y = out_row(call, 0, n) + i * h.width, *const s = (float *)call->scratch + h.width * h.step;
      if (g->attention.first > 0 && g->attention.first == h.places - 1)
        attend_once(y, &keys, &h, s);
      else
        attend(y, &keys, &h, s);
    }
}

/* ---- The gradient ---- */

static int64_t fewest(int64_t a, int64_t b) { return a < b ? a : b; }

/* acc[i] = fma(weight[i], row, acc[i]) for i below `count`. */
G16 void add_row(g16 (*acc)[GROUPS], const float *weight, const float *row, int count, int groups, int left) {
  g16 of_row[GROUPS];
  UNROLL_FOR (c, groups)
    of_row[c] = g16_load_some(row + 16 * c, left - 16 * c);
  UNROLL_FOR (i, ROWS) {
    if (i >= count)
      break;
    const g16 w = g16_all(weight[i]);
    UNROLL_FOR (c, groups)
      acc[i][c] = g16_fma(w, of_row[c], acc[i][c]);
  }
}

/* Queries of a block that read the first of some places, from `from` on, and those that read `count` of them, from
 * `whole` on. */
typedef struct readers {
  int64_t from, whole, end;
  int count;
} readers;

/* Adds to the sums of a few places, `groups` groups of channels each, a constant. */
G16 void spread_groups(const addition *a, const readers *r, int groups) {
  const int64_t step = a->step, row_stride = a->row_stride;
  g16 acc[ROWS][GROUPS];
  UNROLL_FOR (i, ROWS)
    UNROLL_FOR (c, groups)
      acc[i][c] = g16_load(a->to + i * a->to_stride + 16 * c);
  int64_t at = r->from;
  for (; at < r->whole && at < r->end; at++)
    add_row(acc, a->weight + at * step, a->rows + at * row_stride, (int)fewest(ROWS - (r->whole - at), r->count),
            groups, a->left);
  for (; at < r->end && r->count == ROWS; at++)
    add_row(acc, a->weight + at * step, a->rows + at * row_stride, ROWS, groups, a->left);
  for (; at < r->end; at++)
    add_row(acc, a->weight + at * step, a->rows + at * row_stride, r->count, groups, a->left);
  UNROLL_FOR (i, ROWS)
    UNROLL_FOR (c, groups)
      g16_store(a->to + i * a->to_stride + 16 * c, acc[i][c]);
}

/* Of places j to j + ROWS - 1. */
static readers readers_of(const head *h, const block *b, int64_t j) {
  const int64_t from = h->g->attention.causal && j > b->first ? j - b->first : 0;
  const int64_t whole = h->g->attention.causal ? j + ROWS - 1 - b->first : 0;
  return (readers){.from = from,
                   .whole = whole,
                   .end = b->end - b->first,
                   .count = (int)(h->places - j < ROWS ? h->places - j : ROWS)};
}

/* Adds to each place the products of its weights with the rows of the queries that read it, ascending. Rows of `to` are
 * whole groups, and their number a multiple of 16. */
static void spread(float *to, const float *weight, const float *rows, int64_t row_stride, const block *b,
                   const head *h) {
  const int64_t to_stride = padded_width(h->g);
  for (int64_t j = 0; j < reach_of(h, b->end - 1); j += ROWS) {
    const readers r = readers_of(h, b, j);
    for (int k = 0; k < h->width; k += 16 * GROUPS) {
      const addition a = {to + j * to_stride + k, weight + j, rows + k, to_stride, h->step, row_stride, h->width - k};
      if (a.left > 16)
        spread_groups(&a, &r, GROUPS);
      else
        spread_groups(&a, &r, 1);
    }
  }
}

static float delta_of(const float *dy, const float *y, int width) {
  g16 chains = g16_zero();
  for (int k = 0; k < width; k += 16) {
    const g16 more = g16_fma(g16_load_some(dy + k, width - k), g16_load_some(y + k, width - k), chains);
    chains = g16_keep_tail(chains, more, width - k);
  }
  return g16_tree(chains);
}

/* e becomes p = e * r, and dp becomes ds = p * (dp - delta). */
static void slopes(float *e, float *dp, int64_t reach, float r, float delta) {
  for (int64_t j = 0; j < reach; j += 16) {
    const g16 p = g16_mul(g16_load(e + j), g16_all(r));
    g16_store(e + j, p);
    g16_store(dp + j, g16_mul(p, g16_sub(g16_load(dp + j), g16_all(delta))));
  }
}

/* The same with dropout, whose factors are drawn again: p * f, and p * (dp * f - delta). */
static void dropped_slopes(float *e, float *dp, const head *h, int64_t place, int64_t reach, float r, float delta) {
  float factor[64];
  for (int64_t j = 0; j < reach; j += 16) {
    if (j % 64 == 0)
      draw_factors(factor, h, place, j);
    const g16 p = g16_mul(g16_load(e + j), g16_all(r)), f = g16_load(factor + j % 64);
    g16_store(e + j, g16_mul(p, f));
    g16_store(dp + j, g16_mul(p, g16_sub(g16_mul(g16_load(dp + j), f), g16_all(delta))));
  }
}

/* Where a head's gradient is computed: sums of keys and values, place by place. */
typedef struct back_memory {
  turned keys, values;
  float *p, *ds, *dk, *dv;
} back_memory;

static back_memory memory_of(const hd_geom *g, float *scratch) {
  const int64_t step = step_of(g), turned_elems = width_of(g) * step, sums = padded_places(g) * padded_width(g);
  back_memory m = {.keys = {scratch, step}, .values = {scratch + turned_elems, step}};
  m.p = scratch + 2 * turned_elems;
  m.ds = m.p + BLOCK * step;
  m.dk = m.ds + BLOCK * step;
  m.dv = m.dk + sums;
  return m;
}

/* What the queries of a head give: dq of place 0; dy and y of the head. */
static void attend_back(float *dq, const float *dy, const float *y, const head *h, const back_memory *m) {
  const int64_t co = h->g->co;
  float scale[BLOCK + ROWS];
  for (int i = 0; i < BLOCK + ROWS; i++)
    scale[i] = h->scale;
  transpose(&m->keys, h->k, 0, h);
  transpose(&m->values, h->v, 0, h);
  for (int64_t place = 0; place < h->places; place += BLOCK) {
    const block b = block_at(h, place);
    const float *const query = h->q + place * h->stride, *const of_dy = dy + place * co;
    dots(m->p, query, h->stride, &m->keys, &b, h);
    dots(m->ds, of_dy, co, &m->values, &b, h);
    for (int64_t i = 0; i < b.end - place; i++) {
      float *const p = m->p + i * h->step, *const ds = m->ds + i * h->step;
      const int64_t reach = reach_of(h, place + i);
      const float r = exponentials(p, reach, h->scale);
      const float delta = delta_of(of_dy + i * co, y + (place + i) * co, h->width);
      if (h->g->attention.dropout > 0)
        dropped_slopes(p, ds, h, place + i, reach, r, delta);
      else
        slopes(p, ds, reach, r, delta);
    }
    mix(dq + place * h->stride, h->stride, m->ds, h->k, scale, &b, h);
    spread(m->dk, m->ds, query, h->stride, &b, h);
    spread(m->dv, m->p, of_dy, co, &b, h);
  }
}

/* dx of a head's keys, or of its values, of place 0: the sums times a factor. */
static void put_sums(float *dx, const float *sums, const head *h, float factor) {
  for (int64_t j = 0; j < h->places; j++, dx += h->stride, sums += padded_width(h->g))
    for (int k = 0; k < h->width; k += 16)
      g16_store_some(dx + k, g16_mul(g16_load(sums + k), g16_all(factor)), h->width - k);
}

static void attention_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  const back_memory m = memory_of(g, call->scratch);
  const int sharing = g->attention.heads / key_heads_of(g);
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 1, n);
    float *dx = out_row(call, 0, n);
    for (int i = 0; i < g->attention.heads; i++) {
      const head h = head_of(call, n, x, i);
      if (i % sharing == 0)
        memset(m.dk, 0, 2 * (size_t)(padded_places(g) * padded_width(g)) * sizeof *m.dk);
      attend_back(dx + (h.q - x), in_row(call, 0, n) + i * h.width, in_row(call, 2, n) + i * h.width, &h, &m);
      if (i % sharing < sharing - 1)
        continue;
      put_sums(dx + (h.k - x), m.dk, &h, h.scale);
      put_sums(dx + (h.v - x), m.dv, &h, 1);
    }
  }
}

void HD_SYM(attention_fill)(hd_kernels *table) {
  table->run[HD_OP_attention] = attention;
  table->run[HD_OP_attention_dx] = attention_dx;
  table->scratch_bytes[HD_OP_attention] = scratch_forward;
  table->scratch_bytes[HD_OP_attention_dx] = scratch_dx;
}
