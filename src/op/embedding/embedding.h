/* embedding: each number of a sample names a row of the weight. */
#pragma once

#include "kernel/unit.h"

/* The row that a number names; -1: it names none. */
HD_BOTH int64_t embedding_row(const hd_geom *g, real x) {
  return x >= 0 && x < (real)g->embedding.tokens && x == (real)(int32_t)x ? (int32_t)x : -1;
}

/* y: row x of the weight for each number x of the sample; NaN if x is not the number of a row */
HD_BOTH int64_t embedding_count(const hd_geom *g) { return op_pixels(g); }
HD_BOTH void embedding_at(const op_call *c, int64_t n, int64_t place) {
  const int channels = op_geom(c)->co;
  const int64_t row = embedding_row(op_geom(c), op_in(c, 0, n)[place]);
  for (int i = 0; i < channels; i++)
    op_out(c, 0, n)[place * channels + i] = row < 0 ? (real)NAN : op_param(c, 1)[row * channels + i];
}

/* dw: per shard: `dw = +0`; samples ascending, numbers of a sample in order: `dw = dw + dy` in the row that the number
 * names */
HD_BOTH int64_t embedding_dw_count(const hd_geom *g) { return g->co; }
HD_BOTH void embedding_dw_at(const op_call *c, int64_t k, int64_t i) {
  const hd_geom *g = op_geom(c);
  real *dw = op_sums(c, 0, k);
  for (int64_t row = 0; row < g->embedding.tokens; row++)
    dw[row * g->co + i] = 0;
  for (int64_t n = op_row0(c, k); n < op_row1(c, k); n++)
    for (int64_t place = 0; place < op_pixels(g); place++) {
      const int64_t row = embedding_row(g, op_in(c, 0, n)[place]);
      if (row >= 0)
        dw[row * g->co + i] = dw[row * g->co + i] + op_in(c, 1, n)[place * g->co + i];
    }
}
