/* The limits of plain C: see chains and triad in kernel.h. One chain of scalars, as the reference computes. */
#include <math.h>

#include "kernel/ref/ref_fill.h"

static int64_t chains(float *sink, int64_t rounds) {
  float x = *sink;
  for (int64_t r = 0; r < rounds; r++)
    x = fmaf(x, 0.999f, 0.001f);
  *sink = x;
  return 2 * rounds;
}

static void triad(float *a, const float *b, const float *c, float scale, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    a[i] = fmaf(c[i], scale, b[i]);
}

void hd__ref_limits_fill(hd_kernels *table) {
  table->chains = chains;
  table->triad = triad;
}
