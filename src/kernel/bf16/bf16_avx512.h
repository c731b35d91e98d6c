/* bfloat16 in AVX-512 registers: rounding, broadcasting a pair, and the dot product of pairs. */
#pragma once

#include "kernel/bf16.h"
#include "op/conv2d/conv2d_cpu.h"

/* acc = fma(a[odd], b[odd], acc), then fma(a[even], b[even], acc), in each of 16 lanes. */
G16 g16 bf16_dot(g16 acc, __m512i a, __m512i b) { return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b); }

/* Elements x[0] and x[1] in every lane. */
G16 __m512i bf16_pair(const uint16_t *x) {
  int32_t both;
  memcpy(&both, x, sizeof both);
  return _mm512_set1_epi32(both);
}

/* Element x[0] and a zero in every lane. */
G16 __m512i bf16_single(const uint16_t *x) { return _mm512_set1_epi32(*x); }

G16 void bf16_round(uint16_t *to, const float *from, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    __m256i some = (__m256i)_mm512_cvtneps_pbh(g16_load_some(from + i, count - i));
    _mm256_mask_storeu_epi16(to + i, count - i >= 16 ? 0xffff : g16_first((int)(count - i)), some);
  }
}
