/* For the file of an ELEMENTWISE operation: applies its two formulas to every element.
 *
 * The file defines REF(name) and REF(name_dx), found through ops.def. A formula is one chain of operations for one
 * element: REAL_FMA where a fused result is meant, REAL_EXP and its kin for functions, and nothing that depends on
 * other elements. */
#ifndef HD_KERNEL_REF_ELEMENTWISE_H
#define HD_KERNEL_REF_ELEMENTWISE_H

#include "kernel/ref/ref_real.h"

typedef real forward_formula(const hd_geom *g, real x);
typedef real backward_formula(const hd_geom *g, real dy, real other); /* other: x or y, as the row in ops.def says */

static inline int64_t elems_of(const hd_geom *g) { return (int64_t)g->ci * g->hi * g->wi; }

/* y = f(x) */
static inline void each(const hd_call *call, forward_formula *f) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems_of(call->g); i++)
      ((real *)call->out[0])[n * call->out_stride[0] + i] =
          f(call->g, ((const real *)call->in[0])[n * call->in_stride[0] + i]);
}

/* dx = f(dy, x or y) */
static inline void each_dx(const hd_call *call, backward_formula *f) {
  for (int64_t n = 0; n < call->rows; n++)
    for (int64_t i = 0; i < elems_of(call->g); i++)
      ((real *)call->out[0])[n * call->out_stride[0] + i] =
          f(call->g, ((const real *)call->in[0])[n * call->in_stride[0] + i],
            ((const real *)call->in[1])[n * call->in_stride[1] + i]);
}

#endif
