/* Attention and its gradient: a few queries at a time. Scores are groups along the places, from keys that are
 * transposed once for each head; sums over places are groups along the channels of a head. Products of places that a
 * query does not read are left out. A decoder keeps the transposed keys of the places before the first query, in
 * out[1]: key_heads x channels of a head x geom.attention.room. */
#include "kernel/cpu/mask16.h"
#include "op/softmax/softmax_cpu.h"

#if HD_ISA_IS(avx512) || HD_ISA_IS(neon)
enum { QUERIES = 8 };
#else
enum { QUERIES = 4 };
#endif

/* The queries that are computed together: `count` of them, and the last one again for the rest. */
typedef struct queries {
  int count;
  int64_t reach[QUERIES]; /* ascending */
} queries;

/* A head of a sample. */
typedef struct head {
  const hd_geom *g;
  const hd_draw *draw;
  uint32_t position;      /* of the sample, */
  int64_t number;         /* and its own: keys of random numbers */
  const float *q, *k, *v; /* of place 0 */
  int64_t places, padded, stride;
  int width;
  float scale;
} head;

static int64_t padded_places(const hd_geom *g) { return (pixels_of(g) + 15) / 16 * 16; }
static int width_of(const hd_geom *g) { return g->co / g->attention.heads; }

static int64_t scratch_forward(const hd_geom *g) {
  return (width_of(g) + QUERIES) * padded_places(g) * (int64_t)sizeof(float);
}
static int64_t scratch_dx(const hd_geom *g) {
  return 2 * (width_of(g) + QUERIES) * padded_places(g) * (int64_t)sizeof(float);
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
                .width = width,
                .scale = 1 / sqrtf((float)width)};
}

static queries queries_at(const head *h, int64_t place) {
  queries q = {.count = (int)(h->places - place < QUERIES ? h->places - place : QUERIES)};
  for (int i = 0; i < QUERIES; i++)
    q.reach[i] = h->g->attention.causal ? place + (i < q.count ? i : q.count - 1) + 1 : h->places;
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
      UNROLL
      for (int i = 0; i < 16; i++)
        square[i] = j + i < h->places ? g16_load_some(from + (j + i) * h->stride + k, channels) : g16_zero();
      g16_transpose(square);
      for (int i = 0; i < channels; i++)
        g16_store(to->first + (k + i) * to->step + j, square[i]);
    }
}

/* to[i * padded + j]: the chain over channels of row i of `rows` and place j of what was transposed. */
static void dots(float *to, const float *rows, int64_t row_stride, const turned *across, const queries *q,
                 const head *h) {
  const float *row[QUERIES];
  for (int i = 0; i < QUERIES; i++)
    row[i] = rows + (i < q->count ? i : q->count - 1) * row_stride;
  for (int64_t j = 0; j < q->reach[QUERIES - 1]; j += 16) {
    g16 acc[QUERIES];
    UNROLL
    for (int i = 0; i < QUERIES; i++)
      acc[i] = g16_zero();
    for (int k = 0; k < h->width; k++) {
      const g16 of_places = g16_load(across->first + k * across->step + j);
      UNROLL
      for (int i = 0; i < QUERIES; i++)
        acc[i] = g16_fma(g16_all(row[i][k]), of_places, acc[i]);
    }
    UNROLL
    for (int i = 0; i < QUERIES; i++)
      g16_store(to + i * h->padded + j, acc[i]);
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

/* What follows are sums over the places that each query reads. All queries read those before the first one's reach; a
 * causal query i reads i more. */

/* Of each query: acc = +0; places ascending: acc = fma(weight, row, acc); to = acc * factor. Rows are `stride`
 * apart. */
static void mix(float *to, int64_t to_stride, const float *weight, const float *rows, const float *factor,
                const queries *q, const head *h) {
  for (int k = 0; k < h->width; k += 16) {
    const int left = h->width - k;
    const float *const first = rows + k;
    g16 acc[QUERIES];
    UNROLL
    for (int i = 0; i < QUERIES; i++)
      acc[i] = g16_zero();
    for (int64_t j = 0; j < q->reach[0]; j++) {
      const g16 row = g16_load_some(first + j * h->stride, left);
      UNROLL
      for (int i = 0; i < QUERIES; i++)
        acc[i] = g16_fma(g16_all(weight[i * h->padded + j]), row, acc[i]);
    }
    UNROLL
    for (int more = 1; more < QUERIES; more++) {
      const int64_t j = q->reach[0] + more - 1;
      if (j >= q->reach[QUERIES - 1])
        break;
      const g16 row = g16_load_some(first + j * h->stride, left);
      UNROLL
      for (int i = more; i < QUERIES; i++)
        acc[i] = g16_fma(g16_all(weight[i * h->padded + j]), row, acc[i]);
    }
    for (int i = 0; i < q->count; i++)
      g16_store_some(to + i * to_stride + k, g16_mul(acc[i], g16_all(factor[i])), left);
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
    UNROLL
    for (int i = 0; i < TOGETHER; i++) {
      acc[i] = g16_zero();
      of_places[i] = across->first + j + (i < left ? 16 * i : 0);
    }
    for (int k = 0; k < h->width; k++) {
      UNROLL
      for (int i = 0; i < TOGETHER; i++)
        acc[i] = g16_fma(g16_all(row[k]), g16_load(of_places[i] + k * across->step), acc[i]);
    }
    for (int i = 0; i < TOGETHER && i < left; i++)
      g16_store(to + j + 16 * i, acc[i]);
  }
}

/* As `mix`, of one query: `groups` groups of channels, a constant, of which the last one has `channels`. */
G16 void mix_groups(float *to, const float *weight, const float *rows, float factor, const head *h, int groups,
                    int channels) {
  g16 acc[TOGETHER];
  UNROLL
  for (int i = 0; i < groups; i++)
    acc[i] = g16_zero();
  for (int64_t j = 0; j < h->places; j++) {
    const g16 e = g16_all(weight[j]);
    UNROLL
    for (int i = 0; i < groups; i++)
      acc[i] = g16_fma(e, g16_load_some(rows + j * h->stride + 16 * i, i + 1 < groups ? 16 : channels), acc[i]);
  }
  UNROLL
  for (int i = 0; i < groups; i++)
    g16_store_some(to + 16 * i, g16_mul(acc[i], g16_all(factor)), i + 1 < groups ? 16 : channels);
}

static void mix_of_one(float *to, const float *weight, const float *rows, float factor, const head *h) {
  for (int k = 0; k < h->width; k += 16 * TOGETHER) {
    const int left = h->width - k, groups = left > 48 ? 4 : (left + 15) / 16;
    const int last = left > 64 ? 16 : left - 16 * (groups - 1);
    switch (groups) {
    case 1: mix_groups(to + k, weight, rows + k, factor, h, 1, last); break;
    case 2: mix_groups(to + k, weight, rows + k, factor, h, 2, last); break;
    case 3: mix_groups(to + k, weight, rows + k, factor, h, 3, last); break;
    default: mix_groups(to + k, weight, rows + k, factor, h, 4, last);
    }
  }
}

/* ---- Forward ---- */

/* The transposed keys of head `number`: of all places in scratch, or those from the first query on added to what is
 * kept, once for the heads that share them. */
static turned keys_of(const hd_call *call, const head *h, int number) {
  const hd_attention_geom *a = &call->g->attention;
  turned keys = {call->scratch, h->padded};
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
  for (int64_t place = first; place < h->places; place += QUERIES) {
    const queries q = queries_at(h, place);
    float r[QUERIES] = {0};
    dots(s, h->q + place * h->stride, h->stride, keys, &q, h);
    for (int i = 0; i < q.count; i++) {
      r[i] = exponentials(s + i * h->padded, q.reach[i], h->scale);
      if (h->g->attention.dropout > 0)
        drop_weights(s + i * h->padded, h, place + i, q.reach[i]);
    }
    mix(y + (place - first) * h->g->co, h->g->co, s, h->v, r, &q, h);
  }
}

static void attention(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++)
    for (int i = 0; i < g->attention.heads; i++) {
      const head h = head_of(call, n, in_row(call, 0, n), i);
      const turned keys = keys_of(call, &h, i);
      float *const y = out_row(call, 0, n) + i * h.width, *const s = (float *)call->scratch + h.width * h.padded;
      if (g->attention.first > 0 && g->attention.first == h.places - 1)
        attend_once(y, &keys, &h, s);
      else
        attend(y, &keys, &h, s);
    }
}

/* ---- The gradient ---- */

/* Adds to each place the products of its weights with the rows of the queries that read it, ascending. */
static void spread(float *to, const float *weight, const float *rows, int64_t row_stride, const queries *q,
                   const head *h) {
  for (int k = 0; k < h->width; k += 16) {
    const int left = h->width - k;
    float *const first = to + k;
    g16 row[QUERIES];
    int64_t j = 0;
    UNROLL
    for (int i = 0; i < QUERIES; i++)
      row[i] = g16_load_some(rows + (i < q->count ? i : q->count - 1) * row_stride + k, left);
    for (; q->count == QUERIES && j < q->reach[0]; j++) {
      g16 acc = g16_load_some(first + j * h->stride, left);
      UNROLL
      for (int i = 0; i < QUERIES; i++)
        acc = g16_fma(g16_all(weight[i * h->padded + j]), row[i], acc);
      g16_store_some(first + j * h->stride, acc, left);
    }
    for (; j < q->reach[QUERIES - 1]; j++) {
      g16 acc = g16_load_some(first + j * h->stride, left);
      UNROLL
      for (int i = 0; i < QUERIES; i++)
        if (i < q->count && j < q->reach[i])
          acc = g16_fma(g16_all(weight[i * h->padded + j]), row[i], acc);
      g16_store_some(first + j * h->stride, acc, left);
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

/* What the queries of a head give: dx as x, of place 0 of the sample; dy and y of the head. */
static void attend_back(float *dx, const float *dy, const float *y, const float *x, const head *h, float *scratch) {
  const int64_t co = h->g->co;
  const turned keys = {scratch, h->padded}, values = {keys.first + h->width * h->padded, h->padded};
  float *const p = values.first + h->width * h->padded, *const ds = p + QUERIES * h->padded;
  float scale[QUERIES];
  for (int i = 0; i < QUERIES; i++)
    scale[i] = h->scale;
  transpose(&keys, h->k, 0, h);
  transpose(&values, h->v, 0, h);
  for (int64_t place = 0; place < h->places; place += QUERIES) {
    const queries q = queries_at(h, place);
    const float *const query = h->q + place * h->stride, *const of_dy = dy + place * co;
    dots(p, query, h->stride, &keys, &q, h);
    dots(ds, of_dy, co, &values, &q, h);
    for (int i = 0; i < q.count; i++) {
      const float r = exponentials(p + i * h->padded, q.reach[i], h->scale);
      const float delta = delta_of(of_dy + i * co, y + (place + i) * co, h->width);
      if (h->g->attention.dropout > 0)
        dropped_slopes(p + i * h->padded, ds + i * h->padded, h, place + i, q.reach[i], r, delta);
      else
        slopes(p + i * h->padded, ds + i * h->padded, q.reach[i], r, delta);
    }
    mix(dx + (query - x), h->stride, ds, h->k, scale, &q, h);
    spread(dx + (h->k - x), ds, query, h->stride, &q, h);
    spread(dx + (h->v - x), p, of_dy, co, &q, h);
  }
}

/* Keys and values of all places: zeros before, and the factor of the keys afterwards. */
static void clear_sums(float *dx, const hd_geom *g) {
  for (int64_t j = 0; j < pixels_of(g); j++)
    memset(dx + j * g->ci + g->co, 0, (size_t)(g->ci - g->co) * sizeof *dx);
}

static void scale_keys(float *dx, const hd_geom *g) {
  const int keys = (g->ci - g->co) / 2;
  const g16 scale = g16_all(1 / sqrtf((float)width_of(g)));
  for (int64_t j = 0; j < pixels_of(g); j++) {
    float *const dk = dx + j * g->ci + g->co;
    for (int k = 0; k < keys; k += 16)
      g16_store_some(dk + k, g16_mul(g16_load_some(dk + k, keys - k), scale), keys - k);
  }
}

static void attention_dx(const hd_call *call) {
  const hd_geom *g = call->g;
  for (int64_t n = 0; n < call->rows; n++) {
    const float *x = in_row(call, 1, n);
    float *dx = out_row(call, 0, n);
    clear_sums(dx, g);
    for (int i = 0; i < g->attention.heads; i++) {
      const head h = head_of(call, n, x, i);
      attend_back(dx, in_row(call, 0, n) + i * h.width, in_row(call, 2, n) + i * h.width, x, &h, call->scratch);
    }
    scale_keys(dx, g);
  }
}

void HD_SYM(attention_fill)(hd_kernels *table) {
  table->run[HD_OP_attention] = attention;
  table->run[HD_OP_attention_dx] = attention_dx;
  table->scratch_bytes[HD_OP_attention] = scratch_forward;
  table->scratch_bytes[HD_OP_attention_dx] = scratch_dx;
}
