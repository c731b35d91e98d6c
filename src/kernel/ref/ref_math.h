/* exp and log of a float as fixed chains of float operations, the same in every table.
 *
 * exp(x): n = nearest integer to x * log2(e), by adding and subtracting 1.5 * 2^23; r = x - n ln 2 in two FMA with ln 2
 * split into a part with 9 trailing zero bits and the rest, |r| <= ln 2 / 2; the Taylor polynomial of degree 7 for
 * exp(r) (its remainder is below 6e-9), evaluated by Horner with FMA; times 2^n by adding n to the exponent bits. x <
 * -87 gives 0 (so no result is denormal), x > 88 gives +inf; a NaN passes through.
 *
 * log(x) for normal x > 0: x = m 2^n with m in [sqrt(1/2), sqrt(2)); s = (m - 1) / (m + 1), log m = 2 s + s^3 P(s^2)
 * with the series 2/3, 2/5, 2/7, 2/9; n ln 2 is added in two parts. 0 gives -inf, less than 0 NaN, +inf +inf. */
#ifndef HD_KERNEL_REF_MATH_H
#define HD_KERNEL_REF_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define HD_EXPF_LOW (-87.0f)
#define HD_EXPF_HIGH 88.0f
#define HD_EXPF_LOG2E 1.44269504f
#define HD_EXPF_ROUND 12582912.0f /* 1.5 * 2^23 */
#define HD_EXPF_LN2_HIGH 0.693145752f
#define HD_EXPF_LN2_LOW 1.42860677e-06f
#define HD_EXPF_C7 0.000198412701f
#define HD_EXPF_C6 0.00138888892f
#define HD_EXPF_C5 0.00833333377f
#define HD_EXPF_C4 0.0416666679f
#define HD_EXPF_C3 0.166666672f
#define HD_EXPF_C2 0.5f

#define HD_LOGF_SQRT_HALF_BITS 0x3f3504f3
#define HD_LOGF_C9 0.222222224f
#define HD_LOGF_C7 0.285714298f
#define HD_LOGF_C5 0.4f
#define HD_LOGF_C3 0.666666687f

static inline float hd__float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint32_t hd__bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float hd__ref_expf(float x) {
  if (x != x)
    return x;
  if (x < HD_EXPF_LOW)
    return 0;
  if (x > HD_EXPF_HIGH)
    return INFINITY;
  float shifted = fmaf(x, HD_EXPF_LOG2E, HD_EXPF_ROUND);
  float n = shifted - HD_EXPF_ROUND;
  float r = fmaf(-n, HD_EXPF_LN2_HIGH, x);
  r = fmaf(-n, HD_EXPF_LN2_LOW, r);
  float p = fmaf(HD_EXPF_C7, r, HD_EXPF_C6);
  p = fmaf(p, r, HD_EXPF_C5);
  p = fmaf(p, r, HD_EXPF_C4);
  p = fmaf(p, r, HD_EXPF_C3);
  p = fmaf(p, r, HD_EXPF_C2);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  /* The low bits of `shifted` hold n; p is in (0.7, 1.5), so adding n to its exponent cannot leave the normal range. */
  return hd__float_of_bits(hd__bits_of_float(p) + (hd__bits_of_float(shifted) << 23));
}

static inline float hd__ref_logf(float x) {
  if (x != x || x < 0)
    return NAN;
  if (x == 0)
    return -INFINITY;
  if (x == INFINITY)
    return x;
  uint32_t bits = hd__bits_of_float(x);
  int32_t n = (int32_t)(bits - HD_LOGF_SQRT_HALF_BITS) >> 23;
  float m = hd__float_of_bits(bits - ((uint32_t)n << 23));
  float s = (m - 1.0f) / (m + 1.0f), z = s * s;
  float p = fmaf(HD_LOGF_C9, z, HD_LOGF_C7);
  p = fmaf(p, z, HD_LOGF_C5);
  p = fmaf(p, z, HD_LOGF_C3);
  p = p * z;
  float tail = fmaf(p, s, (float)n * HD_EXPF_LN2_LOW);
  float head = fmaf((float)n, HD_EXPF_LN2_HIGH, 2.0f * s);
  return head + tail;
}

#endif
