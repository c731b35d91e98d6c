/* Products of bfloat16 numbers, summed in float: the kernels of --precision bf16.
 *
 * Forward convolutions (see bf16_takes), linear layers and the gradient of a linear layer's input round both
 * factors to bfloat16 (to the nearest, ties to even; denormals to zero) and take them in pairs of neighbours along the
 * sum: acc = fma(a[2i + 1], b[2i + 1], acc), then acc = fma(a[2i], b[2i], acc). Products of two bfloat16 are exact in
 * float, so any instruction set can compute this chain; AVX512_BF16 does it in one instruction for 16 lanes. Everything
 * else, weights' gradients and updates among them, stays in float.
 *
 * Packed copies hold bfloat16: a float's place holds a pair, the even element in its lower half. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernel/kernel.h"

/* Overrides the slots of a table; the reference's, and those for AVX512_BF16 over the avx512 table. */
void hd__bf16_reference_fill(hd_kernels *table);
void hd__bf16_conv_fill(hd_kernels *table);
void hd__bf16_linear_fill(hd_kernels *table);

/* Whether a convolution is computed in bfloat16. Winograd's tiles are as fast in float; short kernel rows have few
 * pairs, dilated and depthwise ones none. */
static inline int bf16_takes(const hd_geom *g) {
  enum { LEAST_RUN = 16 };
  return !hd_geom_is_winograd(g) && !hd_geom_is_dilated(g) && g->kw * (g->ci / g->groups) >= LEAST_RUN;
}

static inline uint16_t bf16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t exponent = bits & 0x7f800000u;
  if (exponent == 0)
    return (uint16_t)(bits >> 16 & 0x8000u);
  if (exponent == 0x7f800000u && (bits & 0x007fffffu))
    return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
