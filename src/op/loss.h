/* What losses share. A loss gives one number per sample from its scores and target; in[2] may hold a weight for each
 * class or output, ones if absent. Gradients are divided by the divisor of the mean over the batch.
 *
 * OP_LOSS_OF_TERMS(NAME, ADD) makes the units of a loss that is a sum of terms, OP_CHAINS16 of ADD(chain, term), from
 * NAME_term(g, weight, y, target) and NAME_slope(g, weight, y, target). */
#pragma once

#include "kernel/unit.h"

HD_BOTH real loss_weight(const op_call *c, int64_t i) { return c->in[2] ? op_param(c, 2)[i] : 1; }
HD_BOTH real loss_magnitude(real d) { return d < 0 ? -d : d; }
HD_BOTH real loss_add(real chain, real term) { return chain + term; }
HD_BOTH real loss_add_square(real chain, real term) { return REAL_FMA(term, term, chain); }

#define OP_LOSS_OF_TERMS(name, ADD)                                                                                    \
  HD_BOTH int64_t name##_count(const hd_geom *g) { return 1; }                                                         \
  HD_BOTH void name##_at(const op_call *c, int64_t n, int64_t unused) {                                                \
    const real *y = op_in(c, 0, n), *target = op_in(c, 1, n);                                                          \
    OP_CHAINS16(sum, op_geom(c)->ci, ADD(s, name##_term(op_geom(c), loss_weight(c, i), y[i], target[i])));             \
    op_out(c, 0, n)[0] = sum;                                                                                          \
  }                                                                                                                    \
  HD_BOTH int64_t name##_dx_count(const hd_geom *g) { return g->ci; }                                                  \
  HD_BOTH void name##_dx_at(const op_call *c, int64_t n, int64_t i) {                                                  \
    op_out(c, 0, n)[i] =                                                                                               \
        name##_slope(op_geom(c), loss_weight(c, i), op_in(c, 0, n)[i], op_in(c, 1, n)[i]) / op_divisor(c);             \
  }
