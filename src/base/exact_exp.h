/* exp of a double, the same bits everywhere: see hdmath.h, whose hd__exp it is. A header of its own, since networks
 * exported to C carry it; hexadecimal constants are not in all that such a file is compiled as. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/host_device.h"

/* 1.5 * 2^52: adding and subtracting it rounds to the nearest integer, ties to even. */
#define HD_ROUNDER 6755399441055744.0
#define HD_LOG2_E 1.4426950408889634
#define HD_LN2_HIGH 0.6931471805592082 /* 40 bits */
#define HD_LN2_LOW 7.371002565167799e-13
#define HD_TWO_TO_MINUS_64 5.421010862427522e-20

HD_BOTH double hd__double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

HD_BOTH double hd__power_of_two(int k) { return hd__double_of_bits((uint64_t)(k + 1023) << 52); } /* -1022 to 1023 */

/* x * 2^k for x in [0.5, 2] and any k whose result is not far outside of double's range. */
HD_BOTH double hd__scale_by_two(double x, int k) {
  if (k > 1023)
    return x * 2 * hd__power_of_two(k - 1);
  if (k < -1021)
    return x * hd__power_of_two(k + 64) * HD_TWO_TO_MINUS_64; /* one rounding: the first product is exact */
  return x * hd__power_of_two(k);
}

/* coef[0] + x coef[1] + x^2 coef[2] + ..., from the highest power down. */
HD_BOTH double hd__polynomial(double x, const double *coef, int count) {
  double sum = coef[count - 1];
  for (int i = count - 2; i >= 0; i--)
    sum = sum * x + coef[i];
  return sum;
}

HD_BOTH double hd__exp_of(double x) {
  static const double inverse_factorial[] = {/* 1 / 2! ... 1 / 13! */
                                             1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                                             1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                                             1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
  if (x != x)
    return x;
  if (x > 710)
    return (double)INFINITY;
  if (x < -746)
    return 0;
  double k = (x * HD_LOG2_E + HD_ROUNDER) - HD_ROUNDER;
  double t = x - k * HD_LN2_HIGH; /* exact */
  double u = k * HD_LN2_LOW;
  double r = t - u, rest = (t - r) - u;
  double tail = r * r * hd__polynomial(r, inverse_factorial, 12) + rest;
  return hd__scale_by_two(1 + (r + tail), (int)k);
}
