/* flatten: moves the elements of an image from memory's order (h, w, c) to PyTorch's (c, h, w), and back. */
#pragma once

#include "kernel/unit.h"

/* The place in PyTorch's order of element i in memory. */
HD_BOTH int64_t flatten_place(const hd_geom *g, int64_t i) { return i % g->ci * op_pixels(g) + i / g->ci; }

/* y: moved, not computed */
HD_BOTH int64_t flatten_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void flatten_at(const op_call *c, int64_t n, int64_t i) {
  op_out(c, 0, n)[flatten_place(op_geom(c), i)] = op_in(c, 0, n)[i];
}

/* dx: moved, not computed */
HD_BOTH int64_t flatten_dx_count(const hd_geom *g) { return op_elems(g); }
HD_BOTH void flatten_dx_at(const op_call *c, int64_t n, int64_t i) {
  op_out(c, 0, n)[i] = op_in(c, 0, n)[flatten_place(op_geom(c), i)];
}
