/* Kernels over the pixels of one sample: the loops of transforms.
 *
 * Elements are independent of each other, each one chain with one rounding per operation; docs/determinism.md lists
 * which transform uses which. Planes are those of a sample: channel, row, column. Any alignment; outputs never
 * overlap inputs unless that is noted. All tables give the same bits. */
#pragma once

#include <stdint.h>

typedef struct hd_image_kernels {
  /* out[i] = fma(share, b[i] - a[i], a[i]); out may be a or b. */
  void (*blend)(float *out, const float *a, const float *b, float share, int64_t count);

  /* sum[i] = fma(weight, x[i], sum[i]) */
  void (*add)(float *sum, const float *x, float weight, int64_t count);

  /* acc = +0; k ascending: acc = fma(weight[k], x[i + k * step], acc); out[i] = acc */
  void (*filter)(float *out, const float *x, int64_t step, const float *weight, int32_t taps, int64_t count);

  /* a = row[left[i]], b = row[right[i]]; out[i] = fma(share[i], b - a, a) */
  void (*columns_u8)(float *out, const uint8_t *row, const int32_t *left, const int32_t *right, const float *share,
                     int64_t count);
  void (*columns_f32)(float *out, const float *row, const int32_t *left, const int32_t *right, const float *share,
                      int64_t count);

  /* acc = +0; k ascending below number[i]: acc = fma(w, row[begin[i] + k * step], acc), w being first[i] for k = 0,
   * else last[i] for the last k, else inner; out[i] = acc */
  void (*areas_u8)(float *out, const uint8_t *row, int64_t step, const int32_t *begin, const int32_t *number,
                   const float *first, const float *last, float inner, int64_t count);
  void (*areas_f32)(float *out, const float *row, int64_t step, const int32_t *begin, const int32_t *number,
                    const float *first, const float *last, float inner, int64_t count);

  /* Between four pixels of a plane of height x width whose rows lie `stride` apart, with at least one pixel of margin
   * above and left, two below and right: x and y are cut to [-1, width] and [-1, height]; x0, y0 = their floors; over =
   * fma(x - x0, p(y0, x0 + 1) - p(y0, x0), p(y0, x0)), under likewise one row below; out[i] = fma(y - y0, under -
   * over, over). */
  void (*sample)(float *out, const float *plane, int64_t stride, int32_t height, int32_t width, const float *x,
                 const float *y, int64_t count);
} hd_image_kernels;
