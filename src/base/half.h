/* Numbers of 16 bits as floats, which hold all of them exactly. */
#pragma once

#include <stdint.h>
#include <string.h>

/* IEEE 754's binary16. */
static inline float hd__from_half(uint32_t half) {
  const uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
  float value;
  uint32_t bits;
  if (exponent == 0) {
    value = (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
  }
  bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | mantissa << 13;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* bfloat16: the upper bits of a float. */
static inline float hd__from_bfloat16(uint32_t half) {
  const uint32_t bits = half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
