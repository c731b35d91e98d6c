/* Sixteen floats as one value, at every vector width: one AVX-512 register, two AVX2, four NEON, an array without any.
 *
 * Sixteen is the number of interleaved chains in every long sum, so a kernel written in groups states its chains once
 * for all instruction sets. Every function here acts on each lane alone, with one rounding per operation,
 * except g16_tree and g16_tree4, which are the fixed tree t[i] = s[i] + s[i + 8], then + 4, + 2, + 1, and g16_largest.
 *
 * A mask chooses lanes. g16_first(n) is lanes 0 .. n-1 of a tail; masked loads give zero elsewhere and touch no memory
 * there. g16_store_first(x, value, n) stores lanes 0 .. n-1 and leaves memory behind them unchanged; n is below 16, or
 * with AVX-512 at most 16. Any alignment.
 *
 * g16_min(a, b) is a < b ? a : b (for a NaN, b, or NaN); g16_with_sign(a, x) is a, which has no sign, with that of x.
 *
 * g16_stream stores past the caches, where the instruction set can, and a whole line; g16_end_streams makes such stores
 * visible to other threads.
 *
 * g16_held is the value itself, which the compiler then keeps in a register: GCC reads a value that only a few
 * instructions use from memory again for each of them.
 *
 * All functions are static: the copies of two instruction sets must never be merged by the linker. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernel/cpu/cpu_fill.h"
#include "base/exact_math.h"

#define G16 static inline __attribute__((always_inline, unused))

/* Before a loop whose bounds are constants once it is inlined: unrolls it completely, and so early that arrays of
 * groups become registers. (clang applies GCC's pragma only after they have become memory: five times slower.)
 * KEEP_ROLLED: does not unroll it. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define KEEP_ROLLED _Pragma("clang loop unroll(disable)")
#pragma clang diagnostic ignored "-Wpass-failed" /* it also warns about loops of one round */
#else
#define UNROLL _Pragma("GCC unroll 32")
#define KEEP_ROLLED _Pragma("GCC unroll 1")
#endif
#define UNROLL_FOR(i, count)                                                                                           \
  UNROLL                                                                                                               \
  for (int i = 0; i < (count); i++)

/* The cases 1 to 6, 8 or 12 of a switch over the size of a block, which is a constant in each of them. */
#define CASES_6(CASE)                                                                                                  \
  CASE(1);                                                                                                             \
  CASE(2);                                                                                                             \
  CASE(3);                                                                                                             \
  CASE(4);                                                                                                             \
  CASE(5);                                                                                                             \
  CASE(6);
#define CASES_8(CASE)                                                                                                  \
  CASES_6(CASE) CASE(7);                                                                                               \
  CASE(8);
#define CASES_12(CASE)                                                                                                 \
  CASES_8(CASE) CASE(9);                                                                                               \
  CASE(10);                                                                                                            \
  CASE(11);                                                                                                            \
  CASE(12);

/* Fetches what a loop over consecutive elements, which is at this one, will read soon: a processor by itself does not
 * always fetch far enough ahead. Any address. */
G16 void g16_fetch(const float *x) {
  enum { AHEAD = 256 };
  __builtin_prefetch(x + AHEAD);
}

/* Into the second-level cache. */
G16 void g16_fetch_to_l2(const float *x) { __builtin_prefetch(x, 0, 2); }

/* Each header has, besides arithmetic, functions that pack some lanes of a group and unpack them again:
 *
 *     g16_picks_of(bits)                lane i if bit i is set
 *     g16_store_picked(to, value, p)    these lanes, next to each other; may write up to 16 floats
 *     g16_load_picked(from, rest, p)    the next number of `from` in each of these lanes, `rest` in the others; may
 *                                       read up to 16 floats
 */
#if HD_ISA_IS(avx512) || HD_ISA_IS(amx)
#include "kernel/cpu/group16_avx512.h"
#elif HD_ISA_IS(avx2)
#include "kernel/cpu/group16_avx2.h"
#elif HD_ISA_IS(neon)
#include "kernel/cpu/group16_neon.h"
#else
#include "kernel/cpu/group16_scalar.h"
#endif

/* A part of a group, for blocks whose whole groups take too many registers: half with AVX2, elsewhere the group. */
#if !HD_ISA_IS(avx2)
enum { G16_PART = 16 };
typedef g16 g16_part;
G16 g16_part g16_part_of(g16 x, int part) { return x; }
G16 g16 g16_with_part(g16 x, int part, g16_part y) { return y; }
G16 g16_part g16_part_load(const float *x) { return g16_load(x); }
G16 g16_part g16_part_fma(g16_part a, g16_part b, g16_part c) { return g16_fma(a, b, c); }
#endif

/* Loads and stores of the first `count` lanes: loops run over groups, the last of which may be short. */
G16 g16 g16_load_some(const float *x, int64_t count) {
  return count >= 16 ? g16_load(x) : g16_load_mask(x, g16_first((int)count));
}

G16 void g16_store_some(float *x, g16 value, int64_t count) {
  if (count >= 16)
    g16_store(x, value);
  else
    g16_store_first(x, value, (int)count);
}

/* Chains along a row whose last group is short: `next` in the lanes of the `left` elements, elsewhere unchanged. */
G16 g16 g16_keep_tail(g16 chains, g16 next, int64_t left) {
  return left >= 16 ? next : g16_choose(g16_first((int)left), next, chains);
}

/* The rule of every maximum: a later value is taken only if it is greater or NaN. */
G16 g16 g16_take_over(g16 best, g16 later) {
  return g16_choose(g16_or(g16_less(best, later), g16_nan(later)), later, best);
}

/* exp in lanes of -87 to 88; anything in others. */
G16 g16 g16_exp_inside(g16 x) {
  g16 shifted = g16_fma(x, g16_all(HD_EXPF_LOG2E), g16_all(HD_EXPF_ROUND));
  g16 minus_n = g16_sub(g16_all(HD_EXPF_ROUND), shifted);
  g16 r = g16_fma(minus_n, g16_all(HD_EXPF_LN2_HIGH), x);
  r = g16_fma(minus_n, g16_all(HD_EXPF_LN2_LOW), r);
  g16 p = g16_fma(g16_all(HD_EXPF_C7), r, g16_all(HD_EXPF_C6));
  p = g16_fma(p, r, g16_all(HD_EXPF_C5));
  p = g16_fma(p, r, g16_all(HD_EXPF_C4));
  p = g16_fma(p, r, g16_all(HD_EXPF_C3));
  p = g16_fma(p, r, g16_all(HD_EXPF_C2));
  p = g16_fma(p, r, g16_all(1.0f));
  p = g16_fma(p, r, g16_all(1.0f));
  return g16_scale_2n(p, shifted);
}

/* exp in lanes up to 88; anything in others. */
G16 g16 g16_exp_below(g16 x) { return g16_choose(g16_less(x, g16_all(HD_EXPF_LOW)), g16_zero(), g16_exp_inside(x)); }

/* exp in each lane: hd__expf's chain. */
G16 g16 g16_exp(g16 x) {
  g16 e = g16_choose(g16_less(g16_all(HD_EXPF_HIGH), x), g16_all(INFINITY), g16_exp_below(x));
  return g16_choose(g16_nan(x), x, e);
}

/* exp(-|x|) in each lane. */
G16 g16 g16_exp_minus_abs(g16 x) { return g16_choose(g16_nan(x), x, g16_exp_below(g16_sub(g16_zero(), g16_abs(x)))); }

/* tanh in each lane: hd__tanhf's chain, both branches computed and one chosen, for NaN the one of small values. (Where
 * exp would overflow, 1 - 2 / (exp + 1) has long been 1.) */
G16 g16 g16_tanh(g16 x) {
  g16 a = g16_abs(x), z = g16_mul(x, x), one = g16_all(1.0f), b = g16_min(g16_all(HD_EXPF_HIGH / 2), a);
  g16 p = g16_fma(g16_all(HD_TANHF_C3), z, g16_all(HD_TANHF_C2));
  p = g16_fma(p, z, g16_all(HD_TANHF_C1));
  p = g16_fma(p, z, g16_all(HD_TANHF_C0));
  g16 small = g16_fma(g16_mul(x, z), p, x); /* +0 of -0 */
  g16 y = g16_sub(one, g16_div(g16_all(2.0f), g16_add(g16_exp_inside(g16_add(b, b)), one)));
  return g16_choose(g16_at_least(a, g16_all(HD_TANHF_SMALL)), g16_with_sign(y, x), small);
}

/* erf in each lane: hd__erff's chain, likewise, without the sign. */
G16 g16 g16_erf(g16 x) {
  g16 a = g16_abs(x), z = g16_mul(x, x), b = g16_min(g16_all(HD_ERFF_LARGEST), a);
  g16 q = g16_fma(g16_all(HD_ERFF_L6), b, g16_all(HD_ERFF_L5));
  g16 p = g16_fma(g16_all(HD_ERFF_C5), z, g16_all(HD_ERFF_C4));
  q = g16_fma(q, b, g16_all(HD_ERFF_L4));
  p = g16_fma(p, z, g16_all(HD_ERFF_C3));
  q = g16_fma(q, b, g16_all(HD_ERFF_L3));
  p = g16_fma(p, z, g16_all(HD_ERFF_C2));
  q = g16_fma(q, b, g16_all(HD_ERFF_L2));
  p = g16_fma(p, z, g16_all(HD_ERFF_C1));
  q = g16_fma(q, b, g16_all(HD_ERFF_L1));
  p = g16_fma(p, z, g16_all(HD_ERFF_C0));
  q = g16_fma(q, b, g16_all(HD_ERFF_L0));
  g16 small = g16_fma(a, p, a), y = g16_sub(g16_all(1.0f), g16_exp_inside(q));
  return g16_with_sign(g16_choose(g16_at_least(a, g16_all(HD_ERFF_SMALL)), y, small), x);
}
