/* Elementary functions in double whose result is the same bits on every machine, with every compiler.
 *
 * A C library may change its exp by a last bit between versions, and that bit would change every digest; so
 * schedules, initialisation, transforms, losses and the built-in data set use these. They are made of + - * / and
 * integer work alone, in one fixed order (compiled with -ffp-contract=off). Errors stay below 1 unit in the last
 * place (ulp); tests/unit/test_hdmath.c measures them and holds checksums of the results.
 *
 * Coefficients are those of the Taylor series, cut where the rest falls below 2^-58 of the result; constants that
 * are split in two or three parts carry few enough bits that their product with the integer k is exact.
 *
 *   exp   x = k ln2 + r, |r| <= ln2 / 2, with ln2 in two parts and the rounding of r kept; series of e^r to r^13; times
 *         2^k, in two steps where the result is subnormal
 *   log   x = 2^k m, m in [sqrt 1/2, sqrt 2); log m = 2 atanh s with s = (m - 1) / (m + 1), series to s^23; summed as
 *         f - (f^2 / 2 - ...) with f = m - 1, so that the leading term carries no error
 *   sin   x = k pi/2 + r, |r| <= pi/4, with pi/2 in three parts and r kept in two; series to r^17 (sin) and r^18 (cos);
 *   cos   k mod 4 picks function and sign
 *
 * Special values, as in C's Annex F: NaN gives NaN; exp(-inf) = 0; overflow gives inf; log(0) = -inf, log(x < 0) =
 * NaN; sin keeps the sign of zero. sin and cos are meant for angles: beyond |x| = 2^20, and for infinities, they
 * give NaN. No exception flags, no errno. Where a thread flushes subnormal numbers to zero, subnormal results and
 * arguments count as zero.
 *
 * Thread safety: pure functions. They assume rounding to nearest. */
#pragma once

#include <stdint.h>

#include "base/tools_api.h"

HD_TOOLS_API double hd__exp(double x);
HD_TOOLS_API double hd__log(double x);
double hd__sin(double x);
double hd__cos(double x);

/* base^n by repeated squaring, factors multiplied from the lowest bit of n upward; base^0 is 1. Every squaring
 * doubles the error of the one before, so the error is up to about n ulp: enough for 1 - beta^t, where beta^t
 * vanishes before the error matters. */
double hd__pow_int(double base, uint64_t n);

/* Two standard normal numbers from two random words: Box and Muller's transform, the radius from a word in (0, 1]. */
void hd__two_normals(float y[2], uint32_t radius_word, uint32_t angle_word);
