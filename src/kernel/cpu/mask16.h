/* The masks of dropout: what 64 neighbouring elements are multiplied by, from the random words of 16 blocks of Philox
 * (base/philox.h). Element i takes word i mod 4 of block i / 4: its number u is the word's upper 24 bits, as a
 * fraction, and its factor 0 if u < p, else 1 / (1 - p).
 *
 * A vector has the same word of several blocks, one in the lower half of each 64 bits, whose product has 64; the upper
 * half is of no use elsewhere. */
#pragma once

#include "base/philox_words.h"
#include "kernel/cpu/group16.h"

typedef struct mask16 {
  uint64_t seed;
  uint32_t word[3]; /* of the counter, before the block */
  uint32_t below;   /* a number below this, of 24 bits, makes the factor 0 */
  float kept;
} mask16;

/* Of dropout with probability p, in the sample at this position of the epoch. */
static inline mask16 mask16_of(const hd_draw *draw, uint32_t position, float p) {
  return (mask16){.seed = draw->seed,
                  .word = {(uint32_t)HD_RNG_DROPOUT << 24 | draw->node, draw->epoch, position},
                  .below = (uint32_t)ceilf(p * 16777216),
                  .kept = 1 / (1 - p)};
}

#if HD_ISA_IS(avx512)
enum { MASK16_BLOCKS = 8 };
typedef __m512i mask16_words;
G16 mask16_words words_all(uint32_t x) { return _mm512_set1_epi64(x); }
G16 mask16_words words_times(mask16_words a, mask16_words b) { return _mm512_mul_epu32(a, b); }
G16 mask16_words words_high(mask16_words a) { return _mm512_srli_epi64(a, 32); }
G16 mask16_words words_xor(mask16_words a, mask16_words b, mask16_words c) {
  return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}
/* Blocks in the order in which words_factors needs them. */
G16 mask16_words words_count(uint32_t first) {
  return _mm512_add_epi32(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7), words_all(first));
}
G16 void words_factors(float *factor, const mask16 *m, const mask16_words c[4]) {
  const __m512i even = _mm512_mask_blend_epi32(0xaaaa, c[0], _mm512_slli_epi64(c[1], 32));
  const __m512i odd = _mm512_mask_blend_epi32(0xaaaa, c[2], _mm512_slli_epi64(c[3], 32));
  const __m512i below = _mm512_set1_epi32((int)m->below);
  const __m512i low = _mm512_srli_epi32(_mm512_unpacklo_epi64(even, odd), 8);
  const __m512i high = _mm512_srli_epi32(_mm512_unpackhi_epi64(even, odd), 8);
  g16_store(factor, _mm512_maskz_mov_ps(_mm512_cmpge_epi32_mask(low, below), g16_all(m->kept)));
  g16_store(factor + 16, _mm512_maskz_mov_ps(_mm512_cmpge_epi32_mask(high, below), g16_all(m->kept)));
}
#elif HD_ISA_IS(avx2)
enum { MASK16_BLOCKS = 4 };
typedef __m256i mask16_words;
G16 mask16_words words_all(uint32_t x) { return _mm256_set1_epi64x(x); }
G16 mask16_words words_times(mask16_words a, mask16_words b) { return _mm256_mul_epu32(a, b); }
G16 mask16_words words_high(mask16_words a) { return _mm256_srli_epi64(a, 32); }
G16 mask16_words words_xor(mask16_words a, mask16_words b, mask16_words c) {
  return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}
G16 mask16_words words_count(uint32_t first) {
  return _mm256_add_epi32(_mm256_setr_epi64x(0, 2, 1, 3), words_all(first));
}
G16 void words_factors(float *factor, const mask16 *m, const mask16_words c[4]) {
  const __m256i even = _mm256_blend_epi32(c[0], _mm256_slli_epi64(c[1], 32), 0xaa);
  const __m256i odd = _mm256_blend_epi32(c[2], _mm256_slli_epi64(c[3], 32), 0xaa);
  const __m256i below = _mm256_set1_epi32((int)m->below);
  const __m256 kept = _mm256_set1_ps(m->kept);
  const __m256i low = _mm256_srli_epi32(_mm256_unpacklo_epi64(even, odd), 8);
  const __m256i high = _mm256_srli_epi32(_mm256_unpackhi_epi64(even, odd), 8);
  _mm256_storeu_ps(factor, _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(below, low)), kept));
  _mm256_storeu_ps(factor + 8, _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(below, high)), kept));
}
#else
enum { MASK16_BLOCKS = 16 };
typedef struct mask16_words {
  uint64_t of[MASK16_BLOCKS];
} mask16_words;
G16 mask16_words words_all(uint32_t x) {
  mask16_words all;
  for (int i = 0; i < MASK16_BLOCKS; i++)
    all.of[i] = x;
  return all;
}
G16 mask16_words words_times(mask16_words a, mask16_words b) {
  for (int i = 0; i < MASK16_BLOCKS; i++)
    a.of[i] = (uint64_t)(uint32_t)a.of[i] * (uint32_t)b.of[i];
  return a;
}
G16 mask16_words words_high(mask16_words a) {
  for (int i = 0; i < MASK16_BLOCKS; i++)
    a.of[i] >>= 32;
  return a;
}
G16 mask16_words words_xor(mask16_words a, mask16_words b, mask16_words c) {
  for (int i = 0; i < MASK16_BLOCKS; i++)
    a.of[i] ^= b.of[i] ^ c.of[i];
  return a;
}
G16 mask16_words words_count(uint32_t first) {
  mask16_words blocks;
  for (int i = 0; i < MASK16_BLOCKS; i++)
    blocks.of[i] = first + (uint32_t)i;
  return blocks;
}
G16 void words_factors(float *factor, const mask16 *m, const mask16_words c[4]) {
  for (int i = 0; i < MASK16_BLOCKS; i++)
    for (int k = 0; k < 4; k++)
      factor[4 * i + k] = (uint32_t)c[k].of[i] >> 8 < m->below ? 0 : m->kept;
}
#endif

/* The factors of 64 elements, from block `first` on. */
static inline void mask16_factors(float factor[64], const mask16 *m, uint32_t first) {
  const mask16_words m0 = words_all(0xD2511F53u), m1 = words_all(0xCD9E8D57u);
  for (int b = 0; b < 16; b += MASK16_BLOCKS, factor += 4 * MASK16_BLOCKS) {
    mask16_words c[4] = {words_all(m->word[0]), words_all(m->word[1]), words_all(m->word[2]),
                         words_count(first + (uint32_t)b)};
    uint32_t k0 = (uint32_t)m->seed, k1 = (uint32_t)(m->seed >> 32);
    UNROLL
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const mask16_words p0 = words_times(m0, c[0]), p1 = words_times(m1, c[2]);
      c[0] = words_xor(words_high(p1), c[1], words_all(k0));
      c[1] = p1;
      c[2] = words_xor(words_high(p0), c[3], words_all(k1));
      c[3] = p0;
    }
    words_factors(factor, m, c);
  }
}
