/* attention: scaled dot-product attention of several heads over the places of a sample. A place has its queries, keys
 * and values one after the other: `heads` times d channels, then twice `key_heads` times d. Neighbouring heads share
 * the keys and values of a head. */
#pragma once

#include "kernel/unit.h"

#include "base/philox_words.h"

/* Channels of a head. */
HD_BOTH int attention_width(const hd_geom *g) { return g->co / g->attention.heads; }

HD_BOTH int attention_key_heads(const hd_geom *g) {
  return g->attention.key_heads ? g->attention.key_heads : g->attention.heads;
}

/* Query heads for each head of keys. */
HD_BOTH int attention_sharing(const hd_geom *g) { return g->attention.heads / attention_key_heads(g); }

/* Where the queries of a head, and the keys and values of the head that it reads, lie in a place. */
HD_BOTH int64_t attention_query(const hd_geom *g, int64_t head) { return head * attention_width(g); }
HD_BOTH int64_t attention_key(const hd_geom *g, int64_t head) {
  return g->co + head / attention_sharing(g) * attention_width(g);
}
HD_BOTH int64_t attention_value(const hd_geom *g, int64_t head) {
  return attention_key(g, head) + (int64_t)attention_key_heads(g) * attention_width(g);
}

/* How many places the query of a place reads, from the first on. */
HD_BOTH int64_t attention_reach(const hd_geom *g, int64_t place) {
  return g->attention.causal ? place + 1 : op_pixels(g);
}

/* What dropout makes of a weight: it is multiplied by 0 or 1 / (1 - p). */
HD_BOTH real attention_kept(const op_call *c, int64_t n, int64_t place, int64_t head, int64_t j) {
  const hd_geom *g = op_geom(c);
  if (g->attention.dropout == 0)
    return 1;
  const int64_t places = op_pixels(g);
  const hd_draw draw = op_draw(c);
  const uint32_t counter[4] = {(uint32_t)HD_RNG_DROPOUT << 24 | draw.node, draw.epoch, draw.position + (uint32_t)n,
                               (uint32_t)((head * places + place) * ((places + 3) / 4) + j / 4)};
  uint32_t word[4];
  hd__philox_rounds(word, draw.seed, counter);
  return hd__rng_uniform(word[j % 4]) < g->attention.dropout ? 0 : 1 / (1 - (real)g->attention.dropout);
}

HD_BOTH real attention_dot(const real *a, const real *b, int width) {
  real acc = 0;
  for (int k = 0; k < width; k++)
    acc = REAL_FMA(a[k], b[k], acc);
  return acc;
}

/* What the query of a place and head needs to give the weight of a place j: exp(score - m) / sum. */
typedef struct attention_row {
  const real *q, *k; /* its query; the keys of place 0 */
  int64_t stride;
  int width;
  real scale, m, r;
} attention_row;

HD_BOTH real attention_score(const attention_row *a, int64_t j) {
  return attention_dot(a->q, a->k + j * a->stride, a->width) * a->scale;
}
HD_BOTH real attention_weight(const attention_row *a, int64_t j) { return REAL_EXP(attention_score(a, j) - a->m); }

HD_BOTH attention_row attention_row_of(const hd_geom *g, const real *x, int64_t place, int64_t head) {
  const int64_t reach = attention_reach(g, place);
  attention_row a;
  a.stride = g->ci;
  a.width = attention_width(g);
  a.q = x + place * a.stride + attention_query(g, head);
  a.k = x + attention_key(g, head);
  a.scale = 1 / REAL_SQRT((real)a.width);
  a.m = attention_score(&a, 0);
  for (int64_t j = 1; j < reach; j++) {
    const real score = attention_score(&a, j);
    a.m = op_takes_over(score, a.m) ? score : a.m;
  }
  OP_CHAINS16(sum, reach, s + attention_weight(&a, i));
  a.r = 1 / sum;
  return a;
}

/* y: of the query q of a place and head, with keys k and values v of d channels at the places j that it reads,
 * ascending: score = `acc = +0`, channels ascending: `acc = fma(q, k, acc)`, `acc * scale`, `scale = 1 / sqrt(d)`; m =
 * the largest score; e = `exp(score - m)`; sum = 16 chains of additions of e over j and the tree; `r = 1 / sum`; `acc =
 * +0`, j ascending: `acc = fma(e, v, acc)`; `acc * r`. With dropout p in training: `acc = fma(e * f, v, acc)`, `f = u <
 * p ? 0 : 1 / (1 - p)`; u as in dropout, of word j mod 4 of block `(head * T + q) * ceil(T / 4) + floor(j / 4)` of T
 * places */
HD_BOTH int64_t attention_count(const hd_geom *g) { return (op_pixels(g) - g->attention.first) * g->attention.heads; }
HD_BOTH void attention_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int64_t place = g->attention.first + i / g->attention.heads, head = i % g->attention.heads;
  const real *x = op_in(c, 0, n), *v = x + attention_value(g, head);
  real *y = op_out(c, 0, n) + i / g->attention.heads * g->co + attention_query(g, head);
  const attention_row a = attention_row_of(g, x, place, head);
  for (int k = 0; k < a.width; k++)
    y[k] = 0;
  for (int64_t j = 0; j < attention_reach(g, place); j++) {
    const real e = attention_weight(&a, j) * attention_kept(c, n, place, head, j);
    for (int k = 0; k < a.width; k++)
      y[k] = REAL_FMA(e, v[j * a.stride + k], y[k]);
  }
  for (int k = 0; k < a.width; k++)
    y[k] = y[k] * a.r;
}

/* Adds the terms of the query of a place and head to dk and dv, which begin at place 0, and makes dq. */
HD_BOTH void attention_spread(const op_call *c, int64_t n, int64_t place, int64_t head, real *dx) {
  const hd_geom *g = op_geom(c);
  const real *x = op_in(c, 1, n);
  const int64_t at = place * g->co + attention_query(g, head);
  const real *dy = op_in(c, 0, n) + at, *y = op_in(c, 2, n) + at;
  const attention_row a = attention_row_of(g, x, place, head);
  real *dq = dx + place * a.stride + attention_query(g, head);
  OP_CHAINS16(delta, a.width, REAL_FMA(dy[i], y[i], s));
  for (int k = 0; k < a.width; k++)
    dq[k] = 0;
  for (int64_t j = 0; j < attention_reach(g, place); j++) {
    const real *v = x + j * a.stride + attention_value(g, head), p = attention_weight(&a, j) * a.r;
    const real f = attention_kept(c, n, place, head, j), kept = p * f;
    const real ds = p * (attention_dot(dy, v, a.width) * f - delta);
    real *dk = dx + j * a.stride + attention_key(g, head), *dv = dx + j * a.stride + attention_value(g, head);
    for (int k = 0; k < a.width; k++) {
      dq[k] = REAL_FMA(ds, a.k[j * a.stride + k], dq[k]);
      dk[k] = REAL_FMA(ds, a.q[k], dk[k]);
      dv[k] = REAL_FMA(kept, dy[k], dv[k]);
    }
  }
  for (int k = 0; k < a.width; k++)
    dq[k] = dq[k] * a.scale;
}

/* dx: e, r, scale and f as in y, f = 1 without dropout; `p = e * r`; dp = `acc = +0`, channels ascending: `acc =
 * fma(dy, v, acc)`; delta = 16 chains of `fma(dy, y, s)` over the channels and the tree; `ds = p * (dp * f - delta)`.
 * Of a query: `acc = +0`, j ascending: `acc = fma(ds, k, acc)`; `acc * scale`. Of a key, over the heads that read it
 * and the places whose queries do, ascending: `acc = +0`, `acc = fma(ds, q, acc)`; `acc * scale`. Of a value likewise:
 * `acc = fma(p * f, dy, acc)` */
HD_BOTH int64_t attention_dx_count(const hd_geom *g) { return attention_key_heads(g); }
HD_BOTH void attention_dx_at(const op_call *c, int64_t n, int64_t key_head) {
  const hd_geom *g = op_geom(c);
  const int width = attention_width(g), sharing = attention_sharing(g);
  const int64_t first = key_head * sharing;
  const real scale = 1 / REAL_SQRT((real)width);
  real *dx = op_out(c, 0, n);
  for (int64_t j = 0; j < op_pixels(g); j++)
    for (int k = 0; k < width; k++) {
      dx[j * g->ci + attention_key(g, first) + k] = 0;
      dx[j * g->ci + attention_value(g, first) + k] = 0;
    }
  for (int64_t head = first; head < first + sharing; head++)
    for (int64_t place = 0; place < op_pixels(g); place++)
      attention_spread(c, n, place, head, dx);
  for (int64_t j = 0; j < op_pixels(g); j++)
    for (int k = 0; k < width; k++) {
      const int64_t at = j * g->ci + attention_key(g, first) + k;
      dx[at] = dx[at] * scale;
    }
}
