/* The number type of the reference kernels: float for the table that defines all results, double for gradient
 * checks.
 *
 * Files that include this are compiled twice, the second time with -DHD_REF_DOUBLE. REF(name) is the name's copy for
 * the type. */
#ifndef HD_KERNEL_REF_REAL_H
#define HD_KERNEL_REF_REAL_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/kernel.h"

#ifdef HD_REF_DOUBLE
typedef double real;
#define REF(name) hd__ref64_##name
#define REAL_FMA fma
#define REAL_SQRT sqrt
#define REAL_EXP exp /* gradient checks only: no digest depends on it */
#define REAL_LOG log
#define REAL_TANH tanh
#define REAL_ERF erf
#else
#include "kernel/ref/ref_math.h"
typedef float real;
#define REF(name) hd__ref_##name
#define REAL_FMA fmaf
#define REAL_SQRT sqrtf
#define REAL_EXP hd__ref_expf
#define REAL_LOG hd__ref_logf
#define REAL_TANH hd__ref_tanhf
#define REAL_ERF hd__ref_erff
#endif

/* Fills the slots of the kernels in one file. */
void REF(conv_fill)(hd_kernels *table);
void REF(pool_fill)(hd_kernels *table);
void REF(batch_norm_fill)(hd_kernels *table);
void REF(linear_fill)(hd_kernels *table);
void REF(pointwise_fill)(hd_kernels *table);
void REF(loss_fill)(hd_kernels *table);
void REF(dropout_fill)(hd_kernels *table);
void REF(concat_fill)(hd_kernels *table);
void REF(softmax_fill)(hd_kernels *table);
void REF(layer_norm_fill)(hd_kernels *table);

/* The kernels of elementwise operations, one file each. */
#define OP(name, class)
#define ELEMENTWISE(name, ...) hd_run_fn REF(name), REF(name##_dx);
#include "kernel/ops.def"

/* The rule of every maximum: a later value is taken only if it is greater or NaN. */
static inline int takes_over(real later, real best) { return later > best || later != later; }

/* The fixed tree over 16 interleaved chains: t[i] = s[i] + s[i + 8], then + 4, + 2, + 1. */
static inline real tree16(real *s) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      s[i] = s[i] + s[i + half];
  return s[0];
}

#endif
