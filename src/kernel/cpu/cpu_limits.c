/* The limits of an instruction set: FMA in registers, and a stream through memory.
 *
 * A CPU with two FMA units and a latency of four cycles needs eight chains of its widest vectors: as groups of 16 that
 * is eight with AVX-512, four with AVX2, two with NEON. A few more hide irregular delays; too many would not fit the
 * registers. */
#include "kernel/cpu/blocks.h"
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

enum { CHAINS = LIMIT_CHAINS, STREAM = 4 };

static int64_t chains(float *sink, int64_t rounds) {
  g16 x[CHAINS], keep = g16_all(0.999f), add = g16_all(0.001f), sum = g16_zero();
  float out[16];
  for (int i = 0; i < 16; i++)
    out[i] = *sink + 0.01f * (float)i; /* all different, or the halves of a group would be computed once */
  UNROLL_FOR (c, CHAINS)
    x[c] = g16_add(g16_load(out), g16_all((float)c));
  for (int64_t r = 0; r < rounds; r++) {
    UNROLL_FOR (c, CHAINS)
      x[c] = g16_fma(x[c], keep, add);
  }
  UNROLL_FOR (c, CHAINS)
    sum = g16_add(sum, x[c]);
  *sink = g16_tree(sum) / (16 * CHAINS); /* reads every sum: the compiler would drop unread ones */
  return (int64_t)2 * 16 * CHAINS * rounds;
}

static void triad(float *a, const float *b, const float *c, float scale, int64_t count) {
  g16 factor = g16_all(scale);
  int64_t i = 0;
  for (; i + 16 * STREAM <= count; i += 16 * STREAM) {
    UNROLL_FOR (v, STREAM)
      g16_store(a + i + 16 * v, g16_fma(g16_load(c + i + 16 * v), factor, g16_load(b + i + 16 * v)));
  }
  for (; i < count; i += 16)
    g16_store_some(a + i, g16_fma(g16_load_some(c + i, count - i), factor, g16_load_some(b + i, count - i)), count - i);
}

void HD_SYM(limits_fill)(hd_kernels *table) {
  table->chains = chains;
  table->triad = triad;
}
