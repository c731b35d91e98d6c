/* Reductions in the tree over shards, averages of weights, and sums of squares.
 *
 * A block of REDUCE_GROUPS groups runs through the whole reduction before the next: terms are read once, in order,
 * and the entries of the stack stay in L1. The lower entry is the left operand. A sum of squares is 16 interleaved
 * chains of double FMA and the fixed tree; beyond a short tail +0 is added to chains that are never -0, which
 * changes nothing. */
#include "kernel/cpu/cpu_fill.h"
#include "kernel/cpu/group16.h"

enum { REDUCE_GROUPS = 4 };

/* Elements i .. of all terms; the last group may be short when there is only one. */
G16 void reduce_block(float *out, const float *const *term, const hd_reduction *f, int64_t i, int groups,
                      int64_t left) {
  g16 stack[HD_MAX_REDUCTION_DEPTH][REDUCE_GROUPS], acc[REDUCE_GROUPS];
  for (hd_walk w = hd__reduction_walk(f); hd__walk_push(&w);) {
    const float *x = term[w.step->term] + i;
    UNROLL_FOR (v, groups)
      acc[v] = groups > 1 ? g16_load(x + 16 * v) : g16_load_some(x, left);
    while (hd__walk_merge(&w)) {
      UNROLL_FOR (v, groups)
        acc[v] = g16_add(stack[w.top][v], acc[v]);
    }
    UNROLL_FOR (v, groups)
      stack[w.top][v] = acc[v];
  }
  UNROLL_FOR (v, groups)
    g16_store_some(out + i + 16 * v, stack[0][v], left - 16 * v);
}

static void reduce(float *out, const float *const *term, const hd_reduction *f, int64_t count) {
  int64_t i = 0;
  for (; i + 16 * REDUCE_GROUPS <= count; i += 16 * REDUCE_GROUPS)
    reduce_block(out, term, f, i, REDUCE_GROUPS, 16 * REDUCE_GROUPS);
  for (; i < count; i += 16)
    reduce_block(out, term, f, i, 1, count - i);
}

static void merge_stats(hd_stats left, hd_stats right, int64_t count, hd_chan factors) {
  for (int64_t i = 0; i < count; i += 16) {
    int64_t rest = count - i;
    g16 m = g16_load_some(left.mean + i, rest), d = g16_sub(g16_load_some(right.mean + i, rest), m);
    g16 sum = g16_add(g16_load_some(left.m2 + i, rest), g16_load_some(right.m2 + i, rest));
    g16_store_some(left.mean + i, g16_fma(d, g16_all(factors.share), m), rest);
    g16_store_some(left.m2 + i, g16_fma(g16_mul(d, d), g16_all(factors.both), sum), rest);
  }
}

static void average(float *out, const float *average, const float *x, float share, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const g16 old = g16_load_some(average + i, count - i);
    g16_store_some(out + i, g16_fma(g16_all(share), g16_sub(g16_load_some(x + i, count - i), old), old), count - i);
  }
}

static double sum_squares(const float *x, int64_t count) {
  d16 chains = d16_zero();
  double chain[16];
  for (int64_t i = 0; i < count; i += 16)
    chains = d16_add_square(chains, g16_load_some(x + i, count - i));
  d16_store(chain, chains);
  for (int half = 8; half > 0; half /= 2)
    for (int c = 0; c < half; c++)
      chain[c] = chain[c] + chain[c + half];
  return chain[0];
}

void HD_SYM(reduce_fill)(hd_kernels *table) {
  table->reduce = reduce;
  table->merge_stats = merge_stats;
  table->average = average;
  table->sum_squares = sum_squares;
}
