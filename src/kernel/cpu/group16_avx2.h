/* Sixteen floats in two AVX2 registers; a mask is two registers of all-ones lanes. See group16.h. */
#pragma once

#include <immintrin.h>

typedef struct g16 {
  __m256 lo, hi;
} g16;

typedef struct g16_mask {
  __m256 lo, hi;
} g16_mask;

G16 g16 g16_zero(void) { return (g16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
G16 g16 g16_all(float x) { return (g16){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
G16 g16 g16_load(const float *x) { return (g16){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
G16 g16 g16_held(g16 value) {
  __asm__("" : "+x"(value.lo), "+x"(value.hi));
  return value;
}
G16 void g16_store(float *x, g16 value) {
  _mm256_storeu_ps(x, value.lo);
  _mm256_storeu_ps(x + 8, value.hi);
}
G16 void g16_stream(float *x, g16 value) {
  _mm256_stream_ps(x, value.lo);
  _mm256_stream_ps(x + 8, value.hi);
}
G16 void g16_end_streams(void) { _mm_sfence(); }

static const int32_t g16_ones_then_zeros[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

G16 g16_mask g16_first(int count) {
  const int32_t *from = g16_ones_then_zeros + 16 - count;
  return (g16_mask){_mm256_castsi256_ps(_mm256_loadu_si256((const __m256i *)(const void *)from)),
                    _mm256_castsi256_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from + 8)))};
}

G16 g16 g16_load_mask(const float *x, g16_mask mask) {
  return (g16){_mm256_maskload_ps(x, _mm256_castps_si256(mask.lo)),
               _mm256_maskload_ps(x + 8, _mm256_castps_si256(mask.hi))};
}

/* (A masked store takes 12 cycles on AMD's cores.) */
G16 void g16_store_first(float *x, g16 value, int count) {
  if (count & 8)
    _mm256_storeu_ps(x, value.lo);
  const __m256 eight = count & 8 ? value.hi : value.lo;
  __m128 four = _mm256_castps256_ps128(eight);
  x += count & 8;
  if (count & 4) {
    _mm_storeu_ps(x, four);
    four = _mm256_extractf128_ps(eight, 1);
    x += 4;
  }
  if (count & 2) {
    _mm_storel_pi((__m64 *)(void *)x, four);
    four = _mm_movehl_ps(four, four);
    x += 2;
  }
  if (count & 1)
    _mm_store_ss(x, four);
}

G16 g16 g16_add(g16 a, g16 b) { return (g16){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
G16 g16 g16_sub(g16 a, g16 b) { return (g16){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
G16 g16 g16_mul(g16 a, g16 b) { return (g16){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
G16 g16 g16_div(g16 a, g16 b) { return (g16){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
G16 g16 g16_sqrt(g16 a) { return (g16){_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
G16 g16 g16_fma(g16 a, g16 b, g16 c) {
  return (g16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

G16 g16_mask g16_less(g16 a, g16 b) {
  return (g16_mask){_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
G16 g16 g16_min(g16 a, g16 b) { return (g16){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
G16 g16 g16_abs(g16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return (g16){_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
G16 g16 g16_with_sign(g16 a, g16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return (g16){_mm256_or_ps(a.lo, _mm256_and_ps(sign, x.lo)), _mm256_or_ps(a.hi, _mm256_and_ps(sign, x.hi))};
}

G16 g16_mask g16_at_least(g16 a, g16 b) {
  return (g16_mask){_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ)};
}
G16 g16_mask g16_nan(g16 a) {
  return (g16_mask){_mm256_cmp_ps(a.lo, a.lo, _CMP_UNORD_Q), _mm256_cmp_ps(a.hi, a.hi, _CMP_UNORD_Q)};
}
/* Bit i: lane i is not zero. */
G16 uint32_t g16_nonzero(g16 a) {
  const __m256 lo = _mm256_cmp_ps(a.lo, _mm256_setzero_ps(), _CMP_NEQ_UQ);
  const __m256 hi = _mm256_cmp_ps(a.hi, _mm256_setzero_ps(), _CMP_NEQ_UQ);
  return (uint32_t)_mm256_movemask_ps(lo) | (uint32_t)_mm256_movemask_ps(hi) << 8;
}

/* Some lanes of a group, given as bits; see group16.h. For each half: where its lanes come from when they move together
 * and when they move apart, and which are picked; and the number of those in the lower half. */
typedef struct g16_picks {
  __m256i together[2], apart[2];
  __m256 picked[2];
  int low;
} g16_picks;

G16 g16_picks g16_picks_of(uint32_t bits) {
  _Alignas(32) int32_t together[16] = {0}, apart[16], picked[16];
  int count[2] = {0, 0};
  for (int i = 0; i < 16; i++) {
    apart[i] = count[i / 8];
    picked[i] = bits >> i & 1 ? -1 : 0;
    if (picked[i])
      together[i / 8 * 8 + count[i / 8]++] = i % 8;
  }
  g16_picks p = {.low = count[0]};
  for (int half = 0; half < 2; half++) {
    p.together[half] = _mm256_load_si256((const __m256i *)(const void *)(together + 8 * half));
    p.apart[half] = _mm256_load_si256((const __m256i *)(const void *)(apart + 8 * half));
    p.picked[half] = _mm256_load_ps((const float *)(const void *)(picked + 8 * half));
  }
  return p;
}

G16 void g16_store_picked(float *to, g16 value, const g16_picks *p) {
  _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(value.lo, p->together[0]));
  _mm256_storeu_ps(to + p->low, _mm256_permutevar8x32_ps(value.hi, p->together[1]));
}

G16 g16 g16_load_picked(const float *from, g16 rest, const g16_picks *p) {
  const __m256 lo = _mm256_permutevar8x32_ps(_mm256_loadu_ps(from), p->apart[0]);
  const __m256 hi = _mm256_permutevar8x32_ps(_mm256_loadu_ps(from + p->low), p->apart[1]);
  return (g16){_mm256_blendv_ps(rest.lo, lo, p->picked[0]), _mm256_blendv_ps(rest.hi, hi, p->picked[1])};
}

G16 g16_mask g16_or(g16_mask a, g16_mask b) { return (g16_mask){_mm256_or_ps(a.lo, b.lo), _mm256_or_ps(a.hi, b.hi)}; }
G16 g16 g16_choose(g16_mask mask, g16 yes, g16 no) {
  return (g16){_mm256_blendv_ps(no.lo, yes.lo, mask.lo), _mm256_blendv_ps(no.hi, yes.hi, mask.hi)};
}

/* One register of a group. */
enum { G16_PART = 8 };
typedef __m256 g16_part;
G16 g16_part g16_part_of(g16 x, int part) { return part ? x.hi : x.lo; }
G16 g16 g16_with_part(g16 x, int part, g16_part y) { return part ? (g16){x.lo, y} : (g16){y, x.hi}; }
G16 g16_part g16_part_load(const float *x) { return _mm256_loadu_ps(x); }
G16 g16_part g16_part_fma(g16_part a, g16_part b, g16_part c) { return _mm256_fmadd_ps(a, b, c); }

/* Lanes 0 .. 7 of a and 8 .. 15 of b; the lower half twice; the upper half, moved down. */
G16 g16 g16_halves(g16 a, g16 b) { return (g16){a.lo, b.hi}; }
G16 g16 g16_low_twice(g16 x) { return (g16){x.lo, x.lo}; }
G16 g16 g16_high(g16 x) { return (g16){x.hi, x.hi}; }

/* x < 0 ? 0 : x. The instruction gives its second operand for a NaN and for two zeros. */
G16 g16 g16_relu(g16 x) {
  return (g16){_mm256_max_ps(_mm256_setzero_ps(), x.lo), _mm256_max_ps(_mm256_setzero_ps(), x.hi)};
}

G16 __m256 g16_half_scale_2n(__m256 p, __m256 shifted) {
  __m256i n = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), n));
}

/* p times 2^n, n in the low bits of `shifted`. */
G16 g16 g16_scale_2n(g16 p, g16 shifted) {
  return (g16){g16_half_scale_2n(p.lo, shifted.lo), g16_half_scale_2n(p.hi, shifted.hi)};
}

G16 __m256 g16_half_note(__m256 seen, __m256 x) {
  __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7f800000));
  return _mm256_or_ps(seen, _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x00800000))));
}

/* Lanes whose exponent is all ones raise the sign bit of `seen`: integer sums overflow into it. */
G16 g16 g16_note_not_finite(g16 seen, g16 x) {
  return (g16){g16_half_note(seen.lo, x.lo), g16_half_note(seen.hi, x.hi)};
}

G16 int g16_any_noted(g16 seen) { return _mm256_movemask_ps(_mm256_or_ps(seen.lo, seen.hi)) != 0; }

G16 g16 g16_from_u8(const uint8_t *x) {
  __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)x);
  return (g16){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
               _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}

/* The trees of four groups, in out[0 .. 3]. */
G16 void g16_tree4(float *out, g16 a, g16 b, g16 c, g16 d) {
  __m256 a8 = _mm256_add_ps(a.lo, a.hi), b8 = _mm256_add_ps(b.lo, b.hi);
  __m256 c8 = _mm256_add_ps(c.lo, c.hi), d8 = _mm256_add_ps(d.lo, d.hi);
  __m256 ab = _mm256_add_ps(_mm256_permute2f128_ps(a8, b8, 0x20), _mm256_permute2f128_ps(a8, b8, 0x31));
  __m256 cd = _mm256_add_ps(_mm256_permute2f128_ps(c8, d8, 0x20), _mm256_permute2f128_ps(c8, d8, 0x31));
  __m256 t2 = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
  __m256 t1 = _mm256_add_ps(t2, _mm256_permute_ps(t2, 0xf5)); /* a, -, c, - and b, -, d, - */
  __m128 ac = _mm256_castps256_ps128(t1), bd = _mm256_extractf128_ps(t1, 1);
  __m128 abab = _mm_unpacklo_ps(ac, bd), cdcd = _mm_unpackhi_ps(ac, bd);
  _mm_storeu_ps(out, _mm_movelh_ps(abab, cdcd));
}

G16 float g16_tree(g16 s) {
  __m256 t8 = _mm256_add_ps(s.lo, s.hi);
  __m128 t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  __m128 t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_add_ss(t2, _mm_movehdup_ps(t2)));
}

G16 void g16_transpose8(__m256 r[8]) {
  __m256 t[8];
  UNROLL
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  UNROLL
  for (int i = 0; i < 8; i += 4) /* r[i + c]: in half h column 4h + c of rows i to i + 3 */
    UNROLL_FOR (c, 4) {
      const __m256d a = _mm256_castps_pd(t[i + c / 2]), b = _mm256_castps_pd(t[i + c / 2 + 2]);
      r[i + c] = _mm256_castpd_ps(c % 2 ? _mm256_unpackhi_pd(a, b) : _mm256_unpacklo_pd(a, b));
    }
  UNROLL_FOR (c, 4) {
    const __m256 low = _mm256_permute2f128_ps(r[c], r[c + 4], 0x20);
    r[c + 4] = _mm256_permute2f128_ps(r[c], r[c + 4], 0x31);
    r[c] = low;
  }
}

G16 __m256 g16_bf16_half(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), exponent = _mm256_set1_epi32(0x7f800000);
  const __m256i tie = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i near = _mm256_add_epi32(bits, _mm256_add_epi32(tie, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i tiny = _mm256_cmpeq_epi32(_mm256_and_si256(bits, exponent), _mm256_setzero_si256());
  __m256i y = _mm256_blendv_epi8(near, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  y = _mm256_blendv_epi8(y, _mm256_and_si256(bits, _mm256_set1_epi32((int)0x80000000u)), tiny);
  return _mm256_castsi256_ps(_mm256_and_si256(y, _mm256_set1_epi32((int)0xffff0000u)));
}
/* Rounded to bfloat16, see bf16_of() in kernel/bf16.h. */
G16 g16 g16_bf16(g16 x) { return (g16){g16_bf16_half(x.lo), g16_bf16_half(x.hi)}; }

/* Lane j of group i becomes lane i of group j. */
G16 void g16_transpose(g16 r[16]) {
  __m256 quarter[2][2][8]; /* [upper groups][upper lanes] */
  UNROLL_FOR (i, 16) {
    quarter[i / 8][0][i % 8] = r[i].lo;
    quarter[i / 8][1][i % 8] = r[i].hi;
  }
  UNROLL_FOR (q, 4)
    g16_transpose8(quarter[q / 2][q % 2]);
  UNROLL_FOR (i, 16)
    r[i] = (g16){quarter[0][i / 8][i % 8], quarter[1][i / 8][i % 8]};
}

/* The largest lane; NaN if there is one. */
G16 float g16_largest(g16 x) {
  g16_mask nan = g16_nan(x);
  if (_mm256_movemask_ps(_mm256_or_ps(nan.lo, nan.hi)))
    return NAN;
  __m256 m8 = _mm256_max_ps(x.lo, x.hi);
  __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

/* Sixteen doubles. */
typedef struct d16 {
  __m256d q[4];
} d16;

G16 d16 d16_zero(void) {
  return (d16){{_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()}};
}

G16 __m256d d16_quarter_add_square(__m256d acc, __m128 x) {
  __m256d wide = _mm256_cvtps_pd(x);
  return _mm256_fmadd_pd(wide, wide, acc);
}

/* acc + x * x in each lane, fused; x = 0 outside of the mask, which changes no sum of squares. */
G16 d16 d16_add_square(d16 acc, g16 x) {
  return (d16){{d16_quarter_add_square(acc.q[0], _mm256_castps256_ps128(x.lo)),
                d16_quarter_add_square(acc.q[1], _mm256_extractf128_ps(x.lo, 1)),
                d16_quarter_add_square(acc.q[2], _mm256_castps256_ps128(x.hi)),
                d16_quarter_add_square(acc.q[3], _mm256_extractf128_ps(x.hi, 1))}};
}

G16 void d16_store(double *out, d16 x) {
  for (int i = 0; i < 4; i++)
    _mm256_storeu_pd(out + 4 * i, x.q[i]);
}
