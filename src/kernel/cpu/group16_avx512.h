/* Sixteen floats in one AVX-512 register; a mask is a mask register. See group16.h. */
#pragma once

#include <immintrin.h>

typedef __m512 g16;
typedef __mmask16 g16_mask;

G16 g16 g16_zero(void) { return _mm512_setzero_ps(); }
G16 g16 g16_all(float x) { return _mm512_set1_ps(x); }
G16 g16 g16_load(const float *x) { return _mm512_loadu_ps(x); }
G16 g16 g16_held(g16 value) {
  __asm__("" : "+v"(value));
  return value;
}
G16 void g16_store(float *x, g16 value) { _mm512_storeu_ps(x, value); }
G16 void g16_stream(float *x, g16 value) { _mm512_stream_ps(x, value); }
G16 void g16_end_streams(void) { _mm_sfence(); }

G16 g16_mask g16_first(int count) { return (g16_mask)((1u << count) - 1u); }
G16 g16 g16_load_mask(const float *x, g16_mask mask) { return _mm512_maskz_loadu_ps(mask, x); }
G16 void g16_store_first(float *x, g16 value, int count) { _mm512_mask_storeu_ps(x, g16_first(count), value); }

G16 g16 g16_add(g16 a, g16 b) { return _mm512_add_ps(a, b); }
G16 g16 g16_sub(g16 a, g16 b) { return _mm512_sub_ps(a, b); }
G16 g16 g16_mul(g16 a, g16 b) { return _mm512_mul_ps(a, b); }
G16 g16 g16_div(g16 a, g16 b) { return _mm512_div_ps(a, b); }
G16 g16 g16_sqrt(g16 a) { return _mm512_sqrt_ps(a); }
G16 g16 g16_fma(g16 a, g16 b, g16 c) { return _mm512_fmadd_ps(a, b, c); }
G16 g16 g16_min(g16 a, g16 b) { return _mm512_min_ps(a, b); }
G16 g16 g16_abs(g16 a) { return _mm512_abs_ps(a); }
G16 g16 g16_with_sign(g16 a, g16 x) { return _mm512_or_ps(a, _mm512_and_ps(_mm512_set1_ps(-0.0f), x)); }

G16 g16_mask g16_less(g16 a, g16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
G16 g16_mask g16_at_least(g16 a, g16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
G16 g16_mask g16_nan(g16 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
/* Bit i: lane i is not zero. */
G16 uint32_t g16_nonzero(g16 a) { return _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ); }

/* Some lanes of a group, given as bits; see group16.h. */
typedef __mmask16 g16_picks;
G16 g16_picks g16_picks_of(uint32_t bits) { return (g16_picks)bits; }
G16 void g16_store_picked(float *to, g16 value, const g16_picks *p) {
  _mm512_storeu_ps(to, _mm512_maskz_compress_ps(*p, value));
}
G16 g16 g16_load_picked(const float *from, g16 rest, const g16_picks *p) {
  __m512 next = _mm512_loadu_ps(from);
  __asm__("" : "+v"(next)); /* no load under the mask, which is slow where no lane needs a page that is not there yet */
  return _mm512_mask_expand_ps(rest, *p, next);
}

G16 g16_mask g16_or(g16_mask a, g16_mask b) { return (g16_mask)(a | b); }
G16 g16 g16_choose(g16_mask mask, g16 yes, g16 no) { return _mm512_mask_blend_ps(mask, no, yes); }

/* Lanes 0 .. 7 of a and 8 .. 15 of b; the lower half twice; the upper half, moved down. */
G16 g16 g16_halves(g16 a, g16 b) { return _mm512_mask_blend_ps(0xff00, a, b); }
G16 g16 g16_low_twice(g16 x) { return _mm512_shuffle_f32x4(x, x, 0x44); }
G16 g16 g16_high(g16 x) { return _mm512_shuffle_f32x4(x, x, 0xee); }

/* x < 0 ? 0 : x. The instruction gives its second operand for a NaN and for two zeros. */
G16 g16 g16_relu(g16 x) { return _mm512_max_ps(_mm512_setzero_ps(), x); }

/* p times 2^n, n in the low bits of `shifted`. */
G16 g16 g16_scale_2n(g16 p, g16 shifted) {
  __m512i n = _mm512_slli_epi32(_mm512_castps_si512(shifted), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), n));
}

/* Lanes whose exponent is all ones raise the sign bit of `seen`: integer sums overflow into it. */
G16 g16 g16_note_not_finite(g16 seen, g16 x) {
  __m512i bits = _mm512_and_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x7f800000));
  return _mm512_castsi512_ps(
      _mm512_or_epi32(_mm512_castps_si512(seen), _mm512_add_epi32(bits, _mm512_set1_epi32(0x00800000))));
}

G16 int g16_any_noted(g16 seen) { return _mm512_movepi32_mask(_mm512_castps_si512(seen)) != 0; }

G16 g16 g16_from_u8(const uint8_t *x) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)x)));
}

/* The trees of four groups, in out[0 .. 3]. */
G16 void g16_tree4(float *out, g16 a, g16 b, g16 c, g16 d) {
  g16 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  g16 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
  g16 t4 = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
  g16 t2 = _mm512_add_ps(t4, _mm512_permute_ps(t4, 0xee));
  g16 t1 = _mm512_add_ps(t2, _mm512_permute_ps(t2, 0x55));
  g16 four = _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), t1);
  _mm_storeu_ps(out, _mm512_castps512_ps128(four));
}

G16 float g16_tree(g16 s) {
  __m256 t8 = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
  __m128 t4 = _mm_add_ps(_mm256_castps256_ps128(t8), _mm256_extractf128_ps(t8, 1));
  __m128 t2 = _mm_add_ps(t4, _mm_movehl_ps(t4, t4));
  return _mm_cvtss_f32(_mm_add_ss(t2, _mm_movehdup_ps(t2)));
}

/* Rounded to bfloat16, see bf16_of() in kernel/bf16.h. A product with 1 quiets a NaN and makes a denormal zero. */
G16 g16 g16_bf16(g16 x) {
  enum { QUIET_NAN = 0x01, DENORMAL = 0x20, SIGNALLING_NAN = 0x80 };
  const __m512i bits = _mm512_castps_si512(x),
                tie = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i near = _mm512_add_epi32(bits, _mm512_add_epi32(tie, _mm512_set1_epi32(0x7fff)));
  const __mmask16 odd = _mm512_fpclass_ps_mask(x, QUIET_NAN | DENORMAL | SIGNALLING_NAN);
  const __m512 y = _mm512_mask_mul_ps(_mm512_castsi512_ps(near), odd, x, _mm512_set1_ps(1.0f));
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(y), _mm512_set1_epi32((int)0xffff0000u)));
}

/* Lane j of group i becomes lane i of group j. */
G16 void g16_transpose(g16 r[16]) {
  g16 t[16];
  UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  UNROLL
  for (int i = 0; i < 16; i += 4) /* r[i + c]: in quarter q column 4q + c of rows i to i + 3 */
    UNROLL_FOR (c, 4) {
      const __m512d a = _mm512_castps_pd(t[i + c / 2]), b = _mm512_castps_pd(t[i + c / 2 + 2]);
      r[i + c] = _mm512_castpd_ps(c % 2 ? _mm512_unpackhi_pd(a, b) : _mm512_unpacklo_pd(a, b));
    }
  UNROLL_FOR (c, 4) {
    g16 even = _mm512_shuffle_f32x4(r[c], r[c + 4], 0x88), odd = _mm512_shuffle_f32x4(r[c], r[c + 4], 0xdd);
    g16 even2 = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0x88), odd2 = _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0xdd);
    r[c] = _mm512_shuffle_f32x4(even, even2, 0x88);
    r[c + 4] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
    r[c + 8] = _mm512_shuffle_f32x4(even, even2, 0xdd);
    r[c + 12] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
  }
}

/* The largest lane; NaN if there is one. */
G16 float g16_largest(g16 x) {
  if (g16_nan(x))
    return NAN;
  __m256 m8 = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  __m128 m4 = _mm_max_ps(_mm256_castps256_ps128(m8), _mm256_extractf128_ps(m8, 1));
  __m128 m2 = _mm_max_ps(m4, _mm_movehl_ps(m4, m4));
  return _mm_cvtss_f32(_mm_max_ss(m2, _mm_movehdup_ps(m2)));
}

/* Sixteen doubles. */
typedef struct d16 {
  __m512d lo, hi;
} d16;

G16 d16 d16_zero(void) { return (d16){_mm512_setzero_pd(), _mm512_setzero_pd()}; }

/* acc + x * x in each lane, fused; x = 0 outside of the mask, which changes no sum of squares. */
G16 d16 d16_add_square(d16 acc, g16 x) {
  __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(x)), hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
  return (d16){_mm512_fmadd_pd(lo, lo, acc.lo), _mm512_fmadd_pd(hi, hi, acc.hi)};
}

G16 void d16_store(double *out, d16 x) {
  _mm512_storeu_pd(out, x.lo);
  _mm512_storeu_pd(out + 8, x.hi);
}
