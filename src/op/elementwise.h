/* The units of an operation y = f(x) and of its gradient: one for each element. Its header defines NAME_of(g, x) and
 * NAME_dx_of(g, dy, other), other being x or y as its rule says, and ends with OP_ELEMENTWISE(NAME). */
#pragma once

#include "kernel/unit.h"

#define OP_ELEMENTWISE(name)                                                                                           \
  HD_BOTH int64_t name##_count(const hd_geom *g) { return op_elems(g); }                                               \
  HD_BOTH int64_t name##_dx_count(const hd_geom *g) { return op_elems(g); }                                            \
  HD_BOTH void name##_at(const op_call *c, int64_t n, int64_t i) {                                                     \
    op_out(c, 0, n)[i] = name##_of(op_geom(c), op_in(c, 0, n)[i]);                                                     \
  }                                                                                                                    \
  HD_BOTH void name##_dx_at(const op_call *c, int64_t n, int64_t i) {                                                  \
    op_out(c, 0, n)[i] = name##_dx_of(op_geom(c), op_in(c, 0, n)[i], op_in(c, 1, n)[i]);                               \
  }
