/* reshape: the elements of a sample in PyTorch's order, in which two neighbouring parts may change places, as an image
 * of another shape. */
#pragma once

#include "kernel/unit.h"

/* The place in memory (h, w, c) of element i in PyTorch's order (c, h, w). */
HD_BOTH int64_t reshape_place(int64_t i, int64_t channels, int64_t pixels) {
  return i % pixels * channels + i / pixels;
}

/* The element of the input that is element i of the output, both in PyTorch's order. */
HD_BOTH int64_t reshape_source(const hd_geom *g, int64_t i) {
  const int64_t a = g->reshape.swap[0], b = g->reshape.swap[1], inner = g->reshape.inner;
  const int64_t at = i / inner % (a * b);
  return (i / inner / (a * b) * (a * b) + at % a * b + at / a) * inner + i % inner;
}

/* y: moved, not computed */
HD_BOTH int64_t reshape_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void reshape_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int64_t from = reshape_place(reshape_source(g, i), g->ci, op_pixels(g));
  op_out(c, 0, n)[reshape_place(i, g->co, (int64_t)g->ho * g->wo)] = op_in(c, 0, n)[from];
}

/* dx: moved, not computed */
HD_BOTH int64_t reshape_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void reshape_dx_at(const op_call *c, int64_t n, int64_t i) {
  const hd_geom *g = op_geom(c);
  const int64_t from = reshape_place(reshape_source(g, i), g->ci, op_pixels(g));
  op_out(c, 0, n)[from] = op_in(c, 0, n)[reshape_place(i, g->co, (int64_t)g->ho * g->wo)];
}
