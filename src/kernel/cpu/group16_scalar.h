/* Sixteen floats in an array, for CPUs without a vector set that heddle supports; a mask is a bit per lane. See
 * group16.h. */
#pragma once

#include "base/fma.h"

typedef float g16_lanes __attribute__((vector_size(64), aligned(4)));
typedef int32_t g16_words __attribute__((vector_size(64), aligned(4)));
typedef struct g16 {
  g16_lanes f;
} g16;

typedef uint32_t g16_mask;

/* For functions that end in a call or a branch for each lane. Inlining them everywhere doubles GCC's compile time. LLVM
 * may read an argument that is passed by value from a copy whose scope has ended (seen with version 14): clang inlines
 * them all. */
#ifdef __clang__
#define APART G16
#else
#define APART static __attribute__((noinline, unused))
#endif

/* A group whose lane i is the expression, which may use i. */
#define G16_LANES(expression)                                                                                          \
  g16 out;                                                                                                             \
  for (int i = 0; i < 16; i++)                                                                                         \
    out.f[i] = (expression);                                                                                           \
  return out

#define G16_BITS(condition)                                                                                            \
  g16_mask out = 0;                                                                                                    \
  for (int i = 0; i < 16; i++)                                                                                         \
    out |= (condition) ? 1u << i : 0;                                                                                  \
  return out

G16 g16 g16_all(float x) { G16_LANES(x); }
G16 g16 g16_zero(void) { return g16_all(0); }
G16 g16 g16_load(const float *x) {
  g16 out;
  memcpy(&out, x, sizeof out);
  return out;
}
G16 g16 g16_held(g16 value) { return value; }
G16 void g16_store(float *x, g16 value) { memcpy(x, &value, sizeof value); }
G16 void g16_stream(float *x, g16 value) { g16_store(x, value); }
G16 void g16_end_streams(void) {}

G16 g16_mask g16_first(int count) { return (1u << count) - 1u; }
APART g16 g16_load_mask(const float *x, g16_mask mask) { G16_LANES(mask >> i & 1 ? x[i] : 0); }
APART void g16_store_first(float *x, g16 value, int count) {
  for (int i = 0; i < count; i++)
    x[i] = value.f[i];
}

G16 g16 g16_add(g16 a, g16 b) { return (g16){a.f + b.f}; }
G16 g16 g16_sub(g16 a, g16 b) { return (g16){a.f - b.f}; }
G16 g16 g16_mul(g16 a, g16 b) { return (g16){a.f * b.f}; }
G16 g16 g16_div(g16 a, g16 b) { return (g16){a.f / b.f}; }
APART g16 g16_sqrt(g16 a) { G16_LANES(sqrtf(a.f[i])); }
/* By the instruction where the CPU has it (see base/fma.h), four lanes at a time. */
APART g16 g16_fma(g16 a, g16 b, g16 c) {
#ifdef HD_FMA_BY_CPU
  typedef float four __attribute__((vector_size(16)));
  if (hd__has_fma()) {
    four x[4], y[4], sum[4];
    memcpy(x, &a, sizeof x), memcpy(y, &b, sizeof y), memcpy(sum, &c, sizeof sum);
    for (int i = 0; i < 4; i++)
      __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum[i]) : "x"(x[i]), "x"(y[i]));
    memcpy(&c, sum, sizeof c);
    return c;
  }
#endif
  G16_LANES(fmaf(a.f[i], b.f[i], c.f[i]));
}

G16 g16 g16_min(g16 a, g16 b) { G16_LANES(a.f[i] < b.f[i] ? a.f[i] : b.f[i]); }
G16 g16 g16_abs(g16 a) { return (g16){(g16_lanes)((g16_words)a.f & 0x7fffffff)}; }
G16 g16 g16_with_sign(g16 a, g16 x) { return (g16){(g16_lanes)((g16_words)a.f | ((g16_words)x.f & INT32_MIN))}; }

APART g16_mask g16_less(g16 a, g16 b) { G16_BITS(a.f[i] < b.f[i]); }
APART g16_mask g16_at_least(g16 a, g16 b) { G16_BITS(a.f[i] >= b.f[i]); }
APART g16_mask g16_nan(g16 a) { G16_BITS(a.f[i] != a.f[i]); }
/* Bit i: lane i is not zero. */
APART uint32_t g16_nonzero(g16 a) { G16_BITS(a.f[i] != 0); }

/* Some lanes of a group, given as bits; see group16.h. */
typedef uint32_t g16_picks;
G16 g16_picks g16_picks_of(uint32_t bits) { return bits; }
APART void g16_store_picked(float *to, g16 value, const g16_picks *p) {
  for (uint32_t left = *p; left; left &= left - 1)
    *to++ = value.f[__builtin_ctz(left)];
}
APART g16 g16_load_picked(const float *from, g16 rest, const g16_picks *p) {
  for (uint32_t left = *p; left; left &= left - 1)
    rest.f[__builtin_ctz(left)] = *from++;
  return rest;
}

G16 float g16_bf16_lane(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000u) == 0)
    bits &= 0x80000000u;
  else if (x != x)
    bits = (bits | 0x00400000u) & 0xffff0000u;
  else
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
  memcpy(&x, &bits, sizeof x);
  return x;
}
/* Rounded to bfloat16, see bf16_of() in kernel/bf16.h. */
APART g16 g16_bf16(g16 x) { G16_LANES(g16_bf16_lane(x.f[i])); }

/* Lane j of group i becomes lane i of group j. */
APART void g16_transpose(g16 r[16]) {
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < i; j++) {
      const float upper = r[i].f[j];
      r[i].f[j] = r[j].f[i];
      r[j].f[i] = upper;
    }
}

G16 g16_mask g16_or(g16_mask a, g16_mask b) { return a | b; }
APART g16 g16_choose(g16_mask mask, g16 yes, g16 no) { G16_LANES(mask >> i & 1 ? yes.f[i] : no.f[i]); }

/* Lanes 0 .. 7 of a and 8 .. 15 of b; the lower half twice; the upper half, moved down. */
G16 g16 g16_halves(g16 a, g16 b) { G16_LANES(i < 8 ? a.f[i] : b.f[i]); }
G16 g16 g16_low_twice(g16 x) { G16_LANES(x.f[i % 8]); }
G16 g16 g16_high(g16 x) { G16_LANES(x.f[i % 8 + 8]); }

G16 g16 g16_relu(g16 x) { return (g16){(g16_lanes)((g16_words)x.f & ~(g16_words)(x.f < 0))}; }

/* p times 2^n, n in the low bits of `shifted`. */
APART g16 g16_scale_2n(g16 p, g16 shifted) {
  G16_LANES(hd__float_of_bits(hd__bits_of_float(p.f[i]) + (hd__bits_of_float(shifted.f[i]) << 23)));
}

/* Lanes whose value is not finite become 1 in `seen`. */
APART g16 g16_note_not_finite(g16 seen, g16 x) { G16_LANES(isfinite(x.f[i]) ? seen.f[i] : 1); }

APART int g16_any_noted(g16 seen) {
  int any = 0;
  for (int i = 0; i < 16; i++)
    any |= seen.f[i] != 0;
  return any;
}

G16 g16 g16_from_u8(const uint8_t *x) { G16_LANES((float)x[i]); }

APART float g16_tree(g16 s) {
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      s.f[i] = s.f[i] + s.f[i + half];
  return s.f[0];
}

/* The trees of four groups, in out[0 .. 3]. */
APART void g16_tree4(float *out, g16 a, g16 b, g16 c, g16 d) {
  out[0] = g16_tree(a);
  out[1] = g16_tree(b);
  out[2] = g16_tree(c);
  out[3] = g16_tree(d);
}

/* The largest lane; NaN if there is one. */
APART float g16_largest(g16 x) {
  float m = x.f[0];
  for (int i = 1; i < 16; i++)
    m = x.f[i] > m || x.f[i] != x.f[i] ? x.f[i] : m;
  return m;
}

/* Sixteen doubles. */
typedef struct d16 {
  double f[16];
} d16;

G16 d16 d16_zero(void) { return (d16){{0}}; }

/* acc + x * x in each lane, fused; x = 0 outside of the mask, which changes no sum of squares. */
APART d16 d16_add_square(d16 acc, g16 x) {
  for (int i = 0; i < 16; i++)
    acc.f[i] = fma((double)x.f[i], (double)x.f[i], acc.f[i]);
  return acc;
}

G16 void d16_store(double *out, d16 x) { memcpy(out, x.f, sizeof x.f); }

#undef G16_LANES
#undef G16_BITS
