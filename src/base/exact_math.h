/* exp, log, tanh and erf of a float as fixed chains of float operations, the same in every table.
 *
 * exp(x): n = nearest integer to x * log2(e), by adding and subtracting 1.5 * 2^23; r = x - n ln 2 in two FMA with ln 2
 * split into a part with 9 trailing zero bits and the rest, |r| <= ln 2 / 2; the Taylor polynomial of degree 7 for
 * exp(r) (its remainder is below 6e-9), evaluated by Horner with FMA; times 2^n by adding n to the exponent bits. x <
 * -87 gives 0 (so no result is denormal), x > 88 gives +inf; a NaN passes through.
 *
 * log(x) for normal x > 0: x = m 2^n with m in [sqrt(1/2), sqrt(2)); s = (m - 1) / (m + 1), log m = 2 s + s^3 P(s^2)
 * with the series 2/3, 2/5, 2/7, 2/9; n ln 2 is added in two parts. 0 gives -inf, less than 0 NaN, +inf +inf.
 *
 * tanh(x), a = |x|: below 0.55 x + x z P(z) with z = x^2 and a minimax polynomial P of degree 3; above, the sign of x
 * times 1 - 2 / (exp(a + a) + 1). erf(x): below 0.9 x + x P(z), P minimax of degree 5; above, the sign of x times
 * 1 - exp(P(min(a, 4))), P of degree 6 being minimax for log(1 - erf). A NaN passes both. */
#ifndef HD_BASE_EXACT_MATH_H
#define HD_BASE_EXACT_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/host_device.h"

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

#define HD_TANHF_SMALL 0.55f
#define HD_TANHF_C3 0.016433103f
#define HD_TANHF_C2 -0.052669533f
#define HD_TANHF_C1 0.1332069f
#define HD_TANHF_C0 -0.33332944f

#define HD_ERFF_SMALL 0.9f
#define HD_ERFF_C5 -0.00060883205f
#define HD_ERFF_C4 0.005011587f
#define HD_ERFF_C3 -0.026778668f
#define HD_ERFF_C2 0.11282135f
#define HD_ERFF_C1 -0.37612522f
#define HD_ERFF_C0 0.12837915f
#define HD_ERFF_LARGEST 4.0f
#define HD_ERFF_L6 0.00019844499f
#define HD_ERFF_L5 -0.0030676776f
#define HD_ERFF_L4 0.022323834f
#define HD_ERFF_L3 -0.10413135f
#define HD_ERFF_L2 -0.6369562f
#define HD_ERFF_L1 -1.1278089f
#define HD_ERFF_L0 -0.00016367144f

HD_BOTH float hd__float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

HD_BOTH uint32_t hd__bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

HD_BOTH float hd__expf(float x) {
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

HD_BOTH float hd__logf(float x) {
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

HD_BOTH float hd__tanhf(float x) {
  float a = x < 0 ? 0.0f - x : x;
  if (a < HD_TANHF_SMALL) {
    float z = x * x;
    float p = fmaf(HD_TANHF_C3, z, HD_TANHF_C2);
    p = fmaf(p, z, HD_TANHF_C1);
    p = fmaf(p, z, HD_TANHF_C0);
    return fmaf(x * z, p, x);
  }
  float y = 1.0f - 2.0f / (hd__expf(a + a) + 1.0f);
  return x < 0 ? 0.0f - y : y;
}

HD_BOTH float hd__erff(float x) {
  float a = x < 0 ? 0.0f - x : x;
  if (a < HD_ERFF_SMALL) {
    float z = x * x;
    float p = fmaf(HD_ERFF_C5, z, HD_ERFF_C4);
    p = fmaf(p, z, HD_ERFF_C3);
    p = fmaf(p, z, HD_ERFF_C2);
    p = fmaf(p, z, HD_ERFF_C1);
    p = fmaf(p, z, HD_ERFF_C0);
    return fmaf(x, p, x);
  }
  a = HD_ERFF_LARGEST < a ? HD_ERFF_LARGEST : a;
  float q = fmaf(HD_ERFF_L6, a, HD_ERFF_L5);
  q = fmaf(q, a, HD_ERFF_L4);
  q = fmaf(q, a, HD_ERFF_L3);
  q = fmaf(q, a, HD_ERFF_L2);
  q = fmaf(q, a, HD_ERFF_L1);
  q = fmaf(q, a, HD_ERFF_L0);
  float y = 1.0f - hd__expf(q);
  return x < 0 ? 0.0f - y : y;
}

#endif
