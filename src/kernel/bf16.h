/* Products of bfloat16 numbers, summed in float: the kernels of --precision bf16.
 *
 * Linear layers, convolutions (see bf16_takes) and the gradients of their inputs and weights round both factors to
 * bfloat16 (to the nearest, ties to even; denormals to zero). A sum is one chain over blocks of 32 factors, the last
 * one filled up with zeros that take part:
 *
 *     acc = +0; blocks ascending: even = odd = +0; i ascending, 0 to 15:
 *         even = fma(a[2i], b[2i], even), odd = fma(a[2i + 1], b[2i + 1], odd);
 *       acc = acc + (even + odd)
 *
 * That is what an AMX tile computes, and any instruction set can: a product of two bfloat16 is exact in float. All
 * else, biases and their gradients, norms, losses and updates among it, is float's; weights are kept in float. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "kernel/kernel.h"

enum { BF16_DEPTH = 32 }; /* factors of a block */

/* Whether a convolution is computed in bfloat16: half a block of factors for an output, at least; no dilation. */
static inline int bf16_takes(const hd_geom *g) {
  const int channels = g->ci / g->conv.groups;
  return !hd_geom_is_dilated(g) && channels * g->window.kh * g->window.kw >= BF16_DEPTH / 2 && channels > 1;
}

static inline uint16_t bf16_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const uint32_t exponent = bits & 0x7f800000u;
  if (exponent == 0)
    return (uint16_t)(bits >> 16 & 0x8000u);
  if (exponent == 0x7f800000u && (bits & 0x007fffffu))
    return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The float with that value. */
static inline float bf16_round(float x) {
  const uint32_t bits = (uint32_t)bf16_of(x) << 16;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Overrides the slots of a table with the reference's; see bf16_tiles.h for those of an instruction set. */
void hd__bf16_reference_fill(hd_kernels *table);
