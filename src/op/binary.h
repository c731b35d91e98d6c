/* The units of an operation of two values a and b, one of which may be spread over pixels or channels. Its header
 * defines NAME_of(a, b) and NAME_slope(c, n, i), what element i of the output adds to the gradient of the input, and
 * ends with OP_BINARY(NAME). */
#pragma once

#include "kernel/unit.h"

HD_BOTH int64_t binary_elems(const hd_geom *g) { return (int64_t)g->co * g->ho * g->wo; }

/* Where input k has what element i of the output reads. */
HD_BOTH int64_t binary_place(const hd_geom *g, int k, int64_t i) {
  const int spread = g->binary.spread[k];
  return spread == 0 ? i : spread == HD_SPREAD_PIXELS ? i % g->co : spread == HD_SPREAD_CHANNELS ? i / g->co : 0;
}

/* In a gradient in[1] and in[2] are a and b. */
HD_BOTH real binary_input(const op_call *c, int k, int64_t n, int64_t i) {
  return op_in(c, 1 + k, n)[binary_place(op_geom(c), k, i)];
}

#define OP_BINARY(name)                                                                                                \
  HD_BOTH int64_t name##_count(const hd_geom *g) { return binary_elems(g); }                                           \
  HD_BOTH int64_t name##_dx_count(const hd_geom *g) { return op_elems(g); }                                            \
  HD_BOTH void name##_at(const op_call *c, int64_t n, int64_t i) {                                                     \
    const hd_geom *g = op_geom(c);                                                                                     \
    op_out(c, 0, n)[i] = name##_of(op_in(c, 0, n)[binary_place(g, 0, i)], op_in(c, 1, n)[binary_place(g, 1, i)]);      \
  }                                                                                                                    \
  HD_BOTH void name##_dx_at(const op_call *c, int64_t n, int64_t at) {                                                 \
    const hd_geom *g = op_geom(c);                                                                                     \
    const int spread = g->binary.spread[g->binary.part];                                                               \
    const int64_t elems = binary_elems(g), channels = g->co;                                                           \
    if (spread == 0) {                                                                                                 \
      op_out(c, 0, n)[at] = name##_slope(c, n, at);                                                                    \
    } else if (spread == HD_SPREAD_PIXELS) {                                                                           \
      real acc = 0;                                                                                                    \
      for (int64_t i = at; i < elems; i += channels)                                                                   \
        acc = acc + name##_slope(c, n, i);                                                                             \
      op_out(c, 0, n)[at] = acc;                                                                                       \
    } else {                                                                                                           \
      const int64_t first = spread == HD_SPREAD_CHANNELS ? at * channels : 0;                                          \
      OP_CHAINS16(sum, spread == HD_SPREAD_CHANNELS ? channels : elems, s + name##_slope(c, n, first + i));            \
      op_out(c, 0, n)[at] = sum;                                                                                       \
    }                                                                                                                  \
  }
