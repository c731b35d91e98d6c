/* Positions of maxima and live gradients, for groups of sixteen and convolutions behind a pool.
 *
 * A position inside a window (0 .. 255) is held as a float in a group's lane, so that the group's masks choose it;
 * memory holds bytes. `bits` are up to 64 neighbouring channels, one bit each, channel 0 lowest: a kernel takes the
 * lowest set bit first, so that channels ascend, which is the order of the chains.
 *
 * No function accesses memory beyond `count` elements. */
#pragma once

#include "kernel/cpu/group16.h"

/* The lowest `count` bits, 0 <= count <= 64. */
G16 uint64_t bits_first(int count) { return count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1; }

#if HD_ISA_IS(avx512) || HD_ISA_IS(amx)

G16 g16_mask g16_equal(g16 a, g16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }

G16 g16 g16_keep(g16 x, g16_mask mask) { return _mm512_maskz_mov_ps(mask, x); }

G16 g16 g16_from_bytes(const uint8_t *bytes, int count) {
  __m128i some = _mm_maskz_loadu_epi8((__mmask16)bits_first(count < 16 ? count : 16), bytes);
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(some));
}

G16 void g16_to_bytes(uint8_t *bytes, g16 positions, int count) {
  __m128i all = _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(positions));
  _mm_mask_storeu_epi8(bytes, (__mmask16)bits_first(count < 16 ? count : 16), all);
}

G16 uint64_t bits_equal(const uint8_t *bytes, int count, int value) {
  __mmask64 some = bits_first(count);
  return _mm512_mask_cmpeq_epi8_mask(some, _mm512_maskz_loadu_epi8(some, bytes), _mm512_set1_epi8((char)value));
}

G16 uint64_t g16_bits_nonzero(g16 x) { return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ); }

#elif HD_ISA_IS(avx2)

G16 g16_mask g16_equal(g16 a, g16 b) {
  return (g16_mask){_mm256_cmp_ps(a.lo, b.lo, _CMP_EQ_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_EQ_OQ)};
}

G16 g16 g16_keep(g16 x, g16_mask mask) { return (g16){_mm256_and_ps(x.lo, mask.lo), _mm256_and_ps(x.hi, mask.hi)}; }

G16 void g16_to_bytes(uint8_t *bytes, g16 positions, int count) {
  __m256i lo = _mm256_cvttps_epi32(positions.lo), hi = _mm256_cvttps_epi32(positions.hi);
  __m128i lo16 = _mm_packus_epi32(_mm256_castsi256_si128(lo), _mm256_extracti128_si256(lo, 1));
  __m128i hi16 = _mm_packus_epi32(_mm256_castsi256_si128(hi), _mm256_extracti128_si256(hi, 1));
  uint8_t all[16];
  _mm_storeu_si128((__m128i *)(void *)(count >= 16 ? bytes : all), _mm_packus_epi16(lo16, hi16));
  if (count < 16)
    memcpy(bytes, all, (size_t)count);
}

G16 uint64_t bits_equal(const uint8_t *bytes, int count, int value) {
  uint8_t some[64];
  if (count < 64) {
    memcpy(some, bytes, (size_t)count);
    memset(some + count, ~value, (size_t)(64 - count));
    bytes = some;
  }
  const __m256i all = _mm256_set1_epi8((char)value);
  __m256i lo = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(const void *)bytes), all);
  __m256i hi = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(const void *)(bytes + 32)), all);
  return (uint32_t)_mm256_movemask_epi8(lo) | (uint64_t)(uint32_t)_mm256_movemask_epi8(hi) << 32;
}

G16 uint64_t g16_bits_nonzero(g16 x) {
  int lo = _mm256_movemask_ps(_mm256_cmp_ps(x.lo, _mm256_setzero_ps(), _CMP_NEQ_UQ));
  int hi = _mm256_movemask_ps(_mm256_cmp_ps(x.hi, _mm256_setzero_ps(), _CMP_NEQ_UQ));
  return (uint64_t)(lo | hi << 8);
}

#else /* lane by lane, through memory */

G16 g16_mask g16_equal(g16 a, g16 b) {
#if HD_ISA_IS(neon)
  return (g16_mask){
      {vceqq_f32(a.q[0], b.q[0]), vceqq_f32(a.q[1], b.q[1]), vceqq_f32(a.q[2], b.q[2]), vceqq_f32(a.q[3], b.q[3])}};
#else
  g16_mask out = 0;
  for (int i = 0; i < 16; i++)
    out |= a.f[i] == b.f[i] ? 1u << i : 0;
  return out;
#endif
}

G16 g16 g16_keep(g16 x, g16_mask mask) { return g16_choose(mask, x, g16_zero()); }

G16 void g16_to_bytes(uint8_t *bytes, g16 positions, int count) {
  float all[16];
  g16_store(all, positions);
  for (int i = 0; i < 16 && i < count; i++)
    bytes[i] = (uint8_t)all[i];
}

G16 uint64_t bits_equal(const uint8_t *bytes, int count, int value) {
  uint64_t out = 0;
  for (int i = 0; i < count; i++)
    out |= (uint64_t)(bytes[i] == value) << i;
  return out;
}

G16 uint64_t g16_bits_nonzero(g16 x) {
  float all[16];
  uint64_t out = 0;
  g16_store(all, x);
  for (int i = 0; i < 16; i++)
    out |= (uint64_t)(all[i] != 0) << i;
  return out;
}

#endif

#if !HD_ISA_IS(avx512) && !HD_ISA_IS(amx)
G16 g16 g16_from_bytes(const uint8_t *bytes, int count) {
  uint8_t some[16] = {0};
  if (count >= 16)
    return g16_from_u8(bytes);
  memcpy(some, bytes, (size_t)count);
  return g16_from_u8(some);
}
#endif

/* Places: in each lane a number below 4, the index of a float in a quad. */
#if HD_ISA_IS(avx512) || HD_ISA_IS(amx)

typedef struct g16_places {
  __m512i of[4]; /* in each of four neighbouring quads */
} g16_places;

G16 g16_places g16_places_from_bytes(const uint8_t *bytes) {
  g16_places out = {{_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)bytes))}};
  for (int i = 1; i < 4; i++)
    out.of[i] = _mm512_add_epi32(out.of[0], _mm512_set1_epi32(4 * i));
  return out;
}

/* quads[4 * i + place] in each lane; four quads are loaded at once, so three more must follow. */
G16 g16 g16_pick(const float *quads, int i, const g16_places *places) {
  return _mm512_permutexvar_ps(places->of[i % 4], _mm512_loadu_ps(quads + i / 4 * 16));
}

/* Sixteen quads: out[4 * i ..] = a[i], b[i], c[i], d[i]. */
G16 void g16_store_quads(float *out, g16 a, g16 b, g16 c, g16 d) {
  __m512d ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
  __m512d cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)), cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
  g16 q0 = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), q1 = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
  g16 q2 = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
  g16 q3 = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high)); /* lane k of q[j]: quad 4 * k + j */
  g16 even = _mm512_shuffle_f32x4(q0, q1, 0x88), even_high = _mm512_shuffle_f32x4(q2, q3, 0x88);
  g16 odd = _mm512_shuffle_f32x4(q0, q1, 0xdd), odd_high = _mm512_shuffle_f32x4(q2, q3, 0xdd);
  g16_store(out, _mm512_shuffle_f32x4(even, even_high, 0x88));
  g16_store(out + 16, _mm512_shuffle_f32x4(odd, odd_high, 0x88));
  g16_store(out + 32, _mm512_shuffle_f32x4(even, even_high, 0xdd));
  g16_store(out + 48, _mm512_shuffle_f32x4(odd, odd_high, 0xdd));
}

#elif HD_ISA_IS(avx2)

typedef struct g16_places {
  __m256i lo, hi;
} g16_places;

G16 g16_places g16_places_from_bytes(const uint8_t *bytes) {
  __m128i all = _mm_loadu_si128((const __m128i *)(const void *)bytes);
  return (g16_places){_mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128(all, 8))};
}

G16 g16 g16_pick(const float *quads, int i, const g16_places *places) {
  __m256 quad = _mm256_broadcast_ps((const __m128 *)(const void *)(quads + 4 * i));
  return (g16){_mm256_permutevar_ps(quad, places->lo), _mm256_permutevar_ps(quad, places->hi)};
}

G16 void store_eight_quads(float *out, __m256 a, __m256 b, __m256 c, __m256 d) {
  __m256d ab = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
  __m256d cd = _mm256_castps_pd(_mm256_unpacklo_ps(c, d)), cd_high = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
  __m256 q0 = _mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)), q1 = _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd));
  __m256 q2 = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, cd_high));
  __m256 q3 = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, cd_high));
  _mm256_storeu_ps(out, _mm256_permute2f128_ps(q0, q1, 0x20));
  _mm256_storeu_ps(out + 8, _mm256_permute2f128_ps(q2, q3, 0x20));
  _mm256_storeu_ps(out + 16, _mm256_permute2f128_ps(q0, q1, 0x31));
  _mm256_storeu_ps(out + 24, _mm256_permute2f128_ps(q2, q3, 0x31));
}

G16 void g16_store_quads(float *out, g16 a, g16 b, g16 c, g16 d) {
  store_eight_quads(out, a.lo, b.lo, c.lo, d.lo);
  store_eight_quads(out + 32, a.hi, b.hi, c.hi, d.hi);
}

#else

typedef struct g16_places {
  uint8_t lane[16];
} g16_places;

G16 g16_places g16_places_from_bytes(const uint8_t *bytes) {
  g16_places out;
  memcpy(out.lane, bytes, 16);
  return out;
}

G16 g16 g16_pick(const float *quads, int i, const g16_places *places) {
  float lane[16];
  for (int l = 0; l < 16; l++)
    lane[l] = quads[4 * i + places->lane[l]];
  return g16_load(lane);
}

G16 void g16_store_quads(float *out, g16 a, g16 b, g16 c, g16 d) {
  float lane[4][16];
  g16_store(lane[0], a);
  g16_store(lane[1], b);
  g16_store(lane[2], c);
  g16_store(lane[3], d);
  for (int i = 0; i < 64; i++)
    out[i] = lane[i % 4][i / 4];
}

#endif

/* The gradients, of up to 64, that are not zero, as bits; NaN counts as not zero. */
G16 uint64_t bits_nonzero(const float *x, int count) {
  uint64_t out = 0;
  int i = 0;
  for (; i + 16 <= count; i += 16)
    out |= g16_bits_nonzero(g16_load(x + i)) << i;
  if (i < count)
    out |= g16_bits_nonzero(g16_load_mask(x + i, g16_first(count - i))) << i;
  return out;
}

/* Clears the lowest set bit of *bits, which is not zero, and returns its number. */
G16 int bits_take(uint64_t *bits) {
  int at = __builtin_ctzll(*bits);
  *bits &= *bits - 1;
  return at;
}
