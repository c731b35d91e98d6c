/* Shared by softmax and cross-entropy: the maximum of a row by takes_over, and the sum of exp(x - m) in 16
 * interleaved chains over the index (chain k takes i = k mod 16, from +0) and the fixed tree. */
#ifndef HD_KERNEL_REF_SOFTMAX_H
#define HD_KERNEL_REF_SOFTMAX_H

#include "kernel/ref/ref_real.h"

static inline real largest(const real *x, int count) {
  real m = x[0];
  for (int i = 1; i < count; i++)
    if (takes_over(x[i], m))
      m = x[i];
  return m;
}

static inline real sum_of_exp(const real *x, int count, real m) {
  real chain[16] = {0};
  for (int i = 0; i < count; i++)
    chain[i % 16] = chain[i % 16] + REAL_EXP(x[i] - m);
  return tree16(chain);
}

#endif
