/* The loops over pixels that gather from other places: every set of kernels compiles them for itself. See image.h. */
#pragma once

#include <math.h>

#include "kernel/image.h"

#define HD_IMAGE_LOOPS(pixel, suffix)                                                                                  \
  static void columns_##suffix(float *out, const pixel *row, const int32_t *left, const int32_t *right,                \
                               const float *share, int64_t count) {                                                    \
    for (int64_t i = 0; i < count; i++) {                                                                              \
      const float a = (float)row[left[i]], b = (float)row[right[i]];                                                   \
      out[i] = fmaf(share[i], b - a, a);                                                                               \
    }                                                                                                                  \
  }                                                                                                                    \
  static void areas_##suffix(float *out, const pixel *row, int64_t step, const int32_t *begin, const int32_t *number,  \
                             const float *first, const float *last, float inner, int64_t count) {                      \
    for (int64_t i = 0; i < count; i++) {                                                                              \
      const pixel *from = row + begin[i];                                                                              \
      const int32_t end = number[i] - 1;                                                                               \
      float acc = fmaf(first[i], (float)from[0], 0.0f);                                                                \
      for (int32_t k = 1; k < end; k++)                                                                                \
        acc = fmaf(inner, (float)from[k * step], acc);                                                                 \
      out[i] = end > 0 ? fmaf(last[i], (float)from[end * step], acc) : acc;                                            \
    }                                                                                                                  \
  }
HD_IMAGE_LOOPS(uint8_t, u8)
HD_IMAGE_LOOPS(float, f32)
#undef HD_IMAGE_LOOPS

static inline int32_t floor_of(float x) {
  const int32_t i = (int32_t)x;
  return i - (x < (float)i);
}

/* NaN is outside, like -1: no place follows from it. */
static inline float cut(float x, float high) { return x > -1 ? (x < high ? x : high) : -1; }

static void sample(float *out, const float *plane, int64_t stride, int32_t height, int32_t width, const float *x,
                   const float *y, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const float at_x = cut(x[i], (float)width), at_y = cut(y[i], (float)height);
    const int32_t x0 = floor_of(at_x), y0 = floor_of(at_y);
    const float right = at_x - (float)x0, down = at_y - (float)y0;
    const float *p = plane + y0 * stride + x0, *q = p + stride;
    const float over = fmaf(right, p[1] - p[0], p[0]), under = fmaf(right, q[1] - q[0], q[0]);
    out[i] = fmaf(down, under - over, over);
  }
}
