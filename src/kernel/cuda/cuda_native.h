/* The kernels before and after the products of NVIDIA's libraries: factors become bfloat16 and results floats again. A
 * thread computes an element. */
#pragma once

#include "kernel/cuda/cuda_call.h"

/* Rounded to the nearest, ties to even. */
HD_BOTH uint16_t cuda_to_bf16(float x) {
  const uint32_t bits = hd__bits_of_float(x);
  return (uint16_t)((x != x ? bits | 64 << 16 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
HD_BOTH float cuda_from_bf16(uint16_t x) { return hd__float_of_bits((uint32_t)x << 16); }

HD_BOTH void narrow_at(const hd_cuda_convert *c, int64_t n, int64_t i) {
  ((uint16_t *)c->to)[n * c->columns + i] = cuda_to_bf16(((const float *)c->from)[n * c->stride + i]);
}

HD_BOTH void widen_at(const hd_cuda_convert *c, int64_t n, int64_t i) {
  ((float *)c->to)[n * c->stride + i] = cuda_from_bf16(((const uint16_t *)c->from)[n * c->columns + i]);
}

/* Rows that the step does not have are zero, so that a sum over the whole batch is one over the step. */
HD_BOTH void blank_at(const hd_cuda_convert *c, int64_t n, int64_t i) {
  if (n >= c->step->rows)
    ((float *)c->to)[n * c->stride + i] = 0;
}
